"""Runs beside each other: in what their configurations, sizes and scores differ, and how their training went."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phmrun.documents import flat
from phmrun.errors import unknown
from phmrun.ledger.history import shown
from phmrun.ledger.listing import score_value
from phmrun.ledger.run import Run, config_values


class Difference(NamedTuple):
    """A dotted key of the configuration at which runs differ, and its value in each; ``None`` where a run has none."""

    key: str
    values: tuple[Any, ...]


class ScoreRow(NamedTuple):
    """A score of several runs, ``None`` where one has none, and whether all were computed in the same way."""

    name: str
    values: tuple[float | None, ...]
    alike: bool


def configurations(runs: Sequence[Run]) -> list[Difference]:
    """The keys at which the configurations of some runs differ, in the order of the first."""
    configs = [flat(config_values(run.config_path)) for run in runs]
    keys = dict.fromkeys(key for values in configs for key in values)
    rows = [Difference(key, tuple(values.get(key) for values in configs)) for key in keys]
    return [row for row in rows if any(value != row.values[0] for value in row.values)]


def scores(runs: Sequence[Run]) -> list[ScoreRow]:
    """All scores that one of the runs has."""
    metrics = [run.metrics() for run in runs]
    names = dict.fromkeys(name for found in metrics for name in found)
    rows = []
    for name in names:
        entries = [found.get(name) for found in metrics]
        # The optimizer step of the weights is an outcome of training, no choice.
        said = (str(entry.get("signature")) for entry in entries if isinstance(entry, Mapping))
        signatures = {re.sub(r"(weights:[a-z]+)@\d+", r"\1", signature) for signature in said}
        rows.append(ScoreRow(name, tuple(score_value(entry) for entry in entries), len(signatures) <= 1))
    return [row for row in rows if any(value is not None for value in row.values)]


def curves(runs: Sequence[Run], figure: str) -> list[tuple[int, list[float | None]]]:
    """A figure of the history of some runs, "val/loss", by optimizer step; shares in per cent."""
    rows_of = [(row for row in run.history.rows(figure) if figure in row) for run in runs]
    by_run = [{row["step"]: shown(figure, row[figure]) for row in rows} for rows in rows_of]
    if not any(by_run):
        names = dict.fromkeys(name for run in runs for name in run.history.names())
        raise unknown("figure", figure, names, where="--figure")
    steps = sorted({step for values in by_run for step in values})
    return [(step, [values.get(step) for values in by_run]) for step in steps]


def figures(runs: Sequence[Run]) -> list[str]:
    """The figures of validations that some run has, in the order of their first appearance."""
    names = dict.fromkeys(name for run in runs for row in run.history.rows("val/") for name in row)
    return [name for name in names if name.startswith("val/")]
