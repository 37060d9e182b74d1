"""Comparison of runs: configurations, scores and training curves."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phmrun.ledger.history import shown
from phmrun.ledger.run import Run
from phmrun.ledger.scores import score_value


class SettingDifference(NamedTuple):
    """Configuration key with different values in several runs.

    Attributes:
        key: Dotted key.
        values: Value in each run; ``None`` if a run does not have the key.
    """

    key: str
    values: tuple[Any, ...]


class ScoreRow(NamedTuple):
    """Score of several runs.

    Attributes:
        name: Name of the score: "test/bleu".
        values: Value in each run; ``None`` if a run does not have the score.
        alike: True if all signatures are equal, except for the optimizer step of the weights. Runs without the score,
            and bare numbers, do not count.
    """

    name: str
    values: tuple[float | None, ...]
    alike: bool


def configurations(runs: Sequence[Run]) -> list[SettingDifference]:
    """Return the keys whose values differ between runs.

    They are in order of first appearance. A missing key has the value ``None``.

    Raises:
        PhmrunError: (exit 3) A configuration cannot be read.
    """
    configs = [run.settings for run in runs]
    keys = dict.fromkeys(key for values in configs for key in values)
    rows = [SettingDifference(key, tuple(values.get(key) for values in configs)) for key in keys]
    return [row for row in rows if any(value != row.values[0] for value in row.values)]


def scores(runs: Sequence[Run]) -> list[ScoreRow]:
    """Return the scores that at least one run has.

    They are in order of first appearance. A score that is a number in no run is left out; one that is a number in some
    has ``None`` for the others.

    Raises:
        PhmrunError: (exit 3) The scores of a run are damaged.
    """
    metrics = [run.metrics() for run in runs]
    names = dict.fromkeys(name for scores in metrics for name in scores)
    rows = []
    for name in names:
        entries = [scores.get(name) for scores in metrics]
        # The optimizer step of the weights is an outcome of training, not a setting of the evaluation.
        texts = (str(entry.get("signature")) for entry in entries if isinstance(entry, Mapping))
        signatures = {re.sub(r"(weights:[a-z]+)@\d+", r"\1", text) for text in texts}
        rows.append(ScoreRow(name, tuple(score_value(entry) for entry in entries), len(signatures) <= 1))
    return [row for row in rows if any(value is not None for value in row.values)]


def curves(runs: Sequence[Run], figure: str) -> list[tuple[int, list[float | None]]]:
    """Return a figure of several runs, such as "val/loss", by optimizer step.

    Args:
        runs: Runs to compare.
        figure: Name of the figure.

    Returns:
        A pair of step and values for each step that any run has, ascending; ``None`` if a run has no value at that
        step. Shares are in percent. If a step occurs twice in a history, its last row counts.
    """
    rows_of = [(row for row in run.history.rows(figure) if figure in row) for run in runs]
    by_run = [{row["step"]: shown(figure, row[figure]) for row in rows} for rows in rows_of]
    steps = sorted({step for values in by_run for step in values})
    return [(step, [values.get(step) for values in by_run]) for step in steps]


def figures(runs: Sequence[Run]) -> list[str]:
    """Return the names of all validation figures ("val/…") of runs.

    They are in order of first appearance.
    """
    names = dict.fromkeys(name for run in runs for row in run.history.rows("val/") for name in row)
    return [name for name in names if name.startswith("val/")]
