"""Comparison of a table's cells with the dense one, by the scores of their seeds and by their test items."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from phmrun.metric import OF, metric_of
from phmrun.progress import progress
from phmrun.results.items import RunItems
from phmrun.results.table import Figure, ResultTable
from phmrun.statistics.decision import Decision, decide
from phmrun.statistics.hierarchical import Comparison, compare_items, compare_scores
from phmrun.statistics.sign_flip import SignFlip, sign_flip

Place = tuple[int, int]  # row and column


@dataclass(frozen=True)
class Difference:
    """What a cell's score is to the dense one's."""

    comparison: Comparison  # by seeds and test items, or by one of the two
    decision: Decision  # what it decides, corrected for the rows of its column
    flip: SignFlip | None  # the sign-flip test of the seeds that both have; ``None`` without such
    rows: int  # how many rows of the column were compared


def differences(table: ResultTable, margin: float | None = None) -> dict[Place, Difference]:
    """By row and column, what a cell is to the dense one, with Holm's correction over the rows of a column.

    A cell is compared with the first dense one of its column, or of its row where the column has none, if both have
    the same score of the same data. Scores that add up over items (BLEU, accuracy, attachment) are compared over seeds
    and items, others over seeds. Runs that were scored on other items than the dense ones are not compared.
    The margin δ is the usual one of the score unless given; 0: only differences are sought.
    """
    items = RunItems()
    found: dict[Place, tuple[Comparison, SignFlip | None]] = {}
    compared_with = list(pairs(table))
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
            made[place] = Difference(found[place][0], decision, found[place][1], len(places))
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


def pairs(table: ResultTable) -> Iterator[tuple[Place, Figure, Figure, str]]:
    """Each cell with the dense one that it is compared with, and the name of the score."""
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            score = table.headings[column].scores[0]
            if figure.runs == 0 or _is_dense(figure):
                continue
            same_score = [one for at, one in enumerate(figures) if table.headings[at].scores[0] == score]
            candidates = [line[column] for line in table.figures] + same_score
            for dense in candidates:
                if dense.runs and _is_dense(dense) and _data(dense) == _data(figure):
                    yield (row, column), figure, dense, score
                    break


def _by_seed(figure: Figure, score: str) -> dict[str, tuple[float, Path]]:
    """The score of each seed, and its run; in the order of the seeds."""
    found = {}
    for entry in figure.entries:
        value = entry.run.score(score) if entry.run else None
        if entry.run is not None and value is not None:
            found[str(entry.seed if entry.seed is not None else entry.run.id)] = (value, entry.run.path)
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))


def _is_dense(figure: Figure) -> bool:
    return all(entry.dense for entry in figure.entries)


def _data(figure: Figure) -> set[str]:
    """The tasks and data of a cell's experiments."""
    return {f"{entry.label('task')} {entry.label('data')}" for entry in figure.entries}
