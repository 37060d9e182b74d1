"""Comparison of a table's cells with the dense one, by the scores of their seeds and by their test items."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phmrun.metric import OF, metric_of
from phmrun.progress import progress
from phmrun.results.items import RunItems
from phmrun.results.table import Figure, ResultTable
from phmrun.statistics.decision import Decision, decide
from phmrun.statistics.hierarchical import Comparison, compare_items, compare_scores
from phmrun.statistics.sign_flip import SignFlip, sign_flip

Place = tuple[int, int]  # row and column


@dataclass(frozen=True)
class RowComparison:
    """Comparison of a cell's score with that of its baseline, the dense cell unless asked otherwise."""

    comparison: Comparison  # by seeds and test items, or by one of the two
    decision: Decision  # what it decides, corrected for the rows of its column
    flip: SignFlip | None  # the sign-flip test of the seeds that both have; ``None`` without such
    rows: int  # how many rows of the column were compared


def differences(
    table: ResultTable, margin: float | None = None, baseline: Mapping[str, Any] | None = None
) -> dict[Place, RowComparison]:
    """Compare the cells of a table with the dense ones, with Holm's correction over the rows of a column.

    A cell is compared with the first dense one of its column, or of its row where the column has none, if both have
    the same score of the same data. Scores that add up over items (BLEU, accuracy, attachment) are compared over seeds
    and items, others over seeds. Runs that were scored on other items than the dense ones, or trained for another
    number of steps, are not compared. ``baseline`` names other cells than the dense ones by the values of keys.
    The margin δ is the usual one of the score unless given; 0: only differences are sought.
    """
    items = RunItems()
    found: dict[Place, tuple[Comparison, SignFlip | None]] = {}
    compared_with = list(pairs(table, baseline))
    with progress("comparing with the dense cells", len(compared_with), "cells") as advance:
        for place, figure, dense, score in compared_with:
            if said := compared(figure, dense, score, items):
                found[place] = said
            advance(1)
    # A second pass, since Holm's correction needs the p-values of all rows of a column.
    made = {}
    for column, heading in enumerate(table.headings):
        places = [place for place in found if place[1] == column]
        metric = metric_of(heading.scores[0])
        chosen = (metric.margin if margin is None else margin) or None
        comparisons = [found[place][0] for place in places]
        decided = decide(comparisons, lower_is_better=metric.lower_is_better, margin=chosen)
        for place, decision in zip(places, decided, strict=True):
            made[place] = RowComparison(found[place][0], decision, found[place][1], len(places))
    return made


def compared(
    figure: Figure, dense: Figure, score: str, items: "RunItems | None" = None
) -> tuple[Comparison, SignFlip | None] | None:
    """A cell and the dense one; ``None`` where nothing can be said, as of runs that were scored on other items."""
    items = items or RunItems()
    ours, theirs = _by_seed(figure, score), _by_seed(dense, score)
    paired = list(ours) == list(theirs)
    values = [[value for value, _ in side.values()] for side in (ours, theirs)]
    shared = [ours[seed][0] - theirs[seed][0] for seed in ours if seed in theirs]
    flip = sign_flip(shared) if len(shared) > 1 else None
    measure = metric_of(score).measure
    if measure is not None and OF not in score:
        read = [items.of([path for _, path in side.values()], score) for side in (ours, theirs)]
        if all(read):
            runs = [each for side in read for each in side]
            # Other marks are other items. A checksum of the file that is not on record (empty) rules nothing out.
            if len({each.mark for each in runs}) > 1 or len({each.file for each in runs} - {""}) > 1:
                return None
            counts = [[each.counts for each in side] for side in read]
            return compare_items(counts[0], counts[1], measure, paired=paired), flip
    comparison = compare_scores(values[0], values[1], paired=paired)
    return None if comparison is None else (comparison, flip)


def over_seeds(figure: Figure, dense: Figure, score: str) -> Comparison | None:
    """A cell and the dense one by the seeds that both have, as pairs; the test items are taken as they are."""
    ours, theirs = _by_seed(figure, score), _by_seed(dense, score)
    shared = [seed for seed in ours if seed in theirs]
    return compare_scores([ours[seed][0] for seed in shared], [theirs[seed][0] for seed in shared], paired=True)


def pairs(table: ResultTable, baseline: Mapping[str, Any] | None = None) -> Iterator[tuple[Place, Figure, Figure, str]]:
    """Yield each cell with the cell that it is compared with, and the name of the score."""
    for place, figure, candidates, score in _candidates(table, baseline):
        alike = (other for other in candidates if other.lengths == figure.lengths)
        if (other := next(alike, None)) is not None:
            yield place, figure, other, score


def withheld(table: ResultTable) -> dict[Place, str]:
    """Return the reason for each cell that is not compared since it was trained for another number of steps."""
    return {
        place: f"not compared: trained for {_listed(figure)}, dense for {_listed(candidates[0])}"
        for place, figure, candidates, _ in _candidates(table)
        if all(other.lengths != figure.lengths for other in candidates)
    }


def _candidates(
    table: ResultTable, baseline: Mapping[str, Any] | None = None
) -> Iterator[tuple[Place, Figure, list[Figure], str]]:
    """Yield each cell that is no baseline with all baselines of its score and data, the nearest first."""
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            score = table.headings[column].scores[0]
            if figure.runs == 0 or _is_baseline(figure, baseline):
                continue
            same_score = [one for at, one in enumerate(figures) if table.headings[at].scores[0] == score]
            below = [line[column] for line in table.figures] + same_score
            candidates = [
                other for other in below
                if other.runs and _is_baseline(other, baseline) and _data(other) == _data(figure)
            ]  # fmt: skip
            if candidates:
                yield (row, column), figure, candidates, score


def _listed(figure: Figure) -> str:
    return " and ".join(length or "an unknown number of steps" for length in figure.lengths)


def _by_seed(figure: Figure, score: str) -> dict[str, tuple[float, Path]]:
    """The score of each seed, and its run; in the order of the seeds."""
    found = {}
    for entry in figure.entries:
        value = entry.run.score(score) if entry.run else None
        if entry.run is not None and value is not None:
            found[str(entry.seed if entry.seed is not None else entry.run.id)] = (value, entry.run.path)
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))


def _is_baseline(figure: Figure, where: Mapping[str, Any] | None) -> bool:
    return all(entry.dense if where is None else entry.matches(where) for entry in figure.entries)


def _data(figure: Figure) -> set[str]:
    """The tasks and data of a cell's experiments."""
    return {f"{entry.label('task')} {entry.label('data')}" for entry in figure.entries}
