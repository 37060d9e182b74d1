"""Counts that each test item adds to a run's score.

They are computed from predictions, or recorded. Imports torch to read predictions, which are compared with the task's
data.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import read_regular
from phmrun.ledger import Run
from phmrun.ledger.manifest import Manifest
from phmrun.ledger.record import ITEMS
from phmrun.ledger.scores import OTHER_FILE
from phmrun.metric import OF, Metric, find_metric, metric_of, part_of
from phmrun.metrics.items import Items, packed, unpacked
from phmrun.statistics.items import Measure, Resampled, resampled


class RunItems:
    """Cache of the items' counts by run and score, and of the scores on resampled items."""

    def __init__(self) -> None:
        self._read: dict[tuple[Path, str], Items | None] = {}
        self._resampled: dict[tuple[Path, str], Resampled] = {}

    def of(self, runs: Sequence[Run], score: str) -> list[Items]:
        """Return the counts of all runs, in order; each is read once.

        The result is empty if those of any run cannot be read.

        Raises:
            PhmrunError: (exit 3) ``items.json``, or without it the predictions, differ from a run's manifest.
        """
        for run in runs:
            if (run.path, score) not in self._read:
                self._read[run.path, score] = _counts(run, score)
        counts = [self._read[run.path, score] for run in runs]
        return [items for items in counts if items is not None] if all(items is not None for items in counts) else []

    def resampled(self, runs: Sequence[Run], score: str, measure: Measure) -> list[Resampled]:
        """Return the scores of all runs on the same resamples of the items, in order; each is computed once.

        Resampling the runs of many rows at once draws the resamples once. The items of all runs can be read.

        Raises:
            ValueError: The runs have different numbers of items.
        """
        new = {run.path: run for run in runs if (run.path, score) not in self._resampled}
        if new:
            scores = resampled([items.counts for items in self.of([*new.values()], score)], measure)
            self._resampled |= {(path, score): its for path, its in zip(new, scores, strict=True)}
        return [self._resampled[run.path, score] for run in runs]


def scores_of_items(run: Run) -> Iterator[tuple[str, Metric]]:
    """Yield the names and metrics of a run's scores that are functions of counts of the test items.

    Those of training, validation, baselines and other files are left out.
    """
    for name in run.metrics():
        metric = find_metric(name)
        left_out = OF in name or name.startswith(("train/", "validation/", OTHER_FILE))
        if metric is not None and (metric.measure or metric.of_items) and not left_out:
            yield name, metric


def items_of(run: Run) -> dict[str, dict[str, Any]]:
    """Return the items' counts of a run's scores as JSON, by name.

    Scores of training, validation and other files are left out, and those that are no function of items or cannot be
    read. Counts that equal those of an earlier score are ``{"same": NAME}``.

    Raises:
        ValueError: A count is no natural number.
        PhmrunError: (exit 3) ``items.json``, or without it the predictions, differ from the run's manifest.
    """
    kept: dict[str, dict[str, Any]] = {}
    for name, _ in scores_of_items(run):
        if (items := _counts(run, name)) is not None:
            content = packed(items)
            kept[name] = next(({"same": other} for other in kept if kept[other] == content), content)
    return kept


def _counts(run: Run, score: str) -> Items | None:
    """Return the items' counts of a run.

    They are from ``items.json`` if it exists, else from the predictions of the score's split. The result is ``None`` if
    they are missing or damaged. Predictions have none for a baseline or a metric without counts.

    Raises:
        PhmrunError: (exit 3) ``items.json``, or without it the predictions, differ from the run's manifest.
    """
    split, _, name = score.partition("/")
    recorded, manifest, metric = run.path / ITEMS, Manifest(run.path), metric_of(name)
    by_score = run.contents.kept.get(ITEMS)
    for file in [recorded] if recorded.is_file() else sorted(run.predictions.glob(f"{split}.*")):
        manifest.check(file)
    try:
        if by_score is not None or recorded.is_file():
            by_score = parse_json(read_regular(recorded)) if by_score is None else by_score
            content = by_score.get(score)
            return content and unpacked(by_score[content["same"]] if "same" in content else content)
        if metric.read_items is None or OF in name:
            return None
        return metric.read_items(Run(run.path), split, part_of(name, metric))
    except (PhmrunError, OSError, ValueError, LookupError, AttributeError, TypeError):
        return None
