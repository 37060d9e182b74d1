"""Comparison of a table's cells with their dense cell, or of all rows with one another, simultaneous.

A verdict is over training seeds, with the test set fixed. An interval over test items is reported beside it. Seeds that
chose a row's settings are left out, so the verdict holds *at these settings*. Diverged runs count as collapsed. The
metric's floors are scores of the dense runs. Imports no torch.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from operator import attrgetter, ne
from statistics import fmean
from typing import Any, NamedTuple

from phmrun.ledger import Run
from phmrun.metric import OF, floors_of, lacks_direction, metric_of
from phmrun.progress import progress
from phmrun.results.baselines import has_diverged
from phmrun.results.items import RunItems
from phmrun.results.table import TEST_LOSS, Figure, ResultTable
from phmrun.statistics.items import ItemVariance, variance_of_resamples
from phmrun.statistics.verdict import Judgement, Question, Verdict, judge

Place = tuple[int, int]  # row and column


@dataclass(frozen=True)
class RowComparison:
    """Comparison of a cell's score with its baseline, by default the dense cell, or of two rows of a column.

    Attributes:
        judgement: Verdict with its interval.
        question: Margin and direction.
        sharing: Number of rows, or pairs, that share the level.
        place: Row and column of the cell.
        beside: Row that it is compared with, if all rows are; ``None`` for the baseline.
        floor: Name and value of the score's best floor; ``None`` if the runs have none.
        dropped: Seeds that chose the settings and are not counted.
        choices: Number of values among which each seed chose itself; 0 if the settings are fixed.
        baseline: Row of the baseline.
    """

    judgement: Judgement
    question: Question
    sharing: int = 1
    place: Place = (0, 0)
    beside: int | None = None
    floor: tuple[str, float] | None = None
    dropped: int = 0
    choices: int = 0
    baseline: int = 0

    @property
    def verdict(self) -> Verdict:
        """Verdict of the judgement."""
        return self.judgement.verdict

    @property
    def settings(self) -> str:
        """Settings for which the verdict holds, in words: "at these settings", or chosen within seeds."""
        if self.choices:
            return f"after choosing among {self.choices} values by validation within each seed"
        return "at these settings" + ("; seeds that chose them are not counted" if self.dropped else "")

    @property
    def words(self) -> str:
        """Verdict in words.

        "different, better", "different, worse", "not worse by more than 0.5", "equivalent within 0.5", else its name.
        """
        margin = f"{self.question.margin or 0:g}"
        words = {
            Verdict.DIFFERENT: f"different, {'better' if self.judgement.better else 'worse'}",
            Verdict.NOT_WORSE: f"not worse by more than {margin}",
            Verdict.EQUIVALENT: f"equivalent within {margin}",
        }
        return words.get(self.verdict, str(self.verdict))


Comparisons = Mapping[Place, RowComparison]
"""Comparisons with the dense cells, by row and column."""


class _Scored(NamedTuple):
    """Scores of a cell's counted seeds."""

    values: tuple[float, ...]  # in the order of the seeds; NaN for a diverged run
    runs: tuple[Run, ...]  # those that have the score
    dropped: int  # number of runs whose seed chose the settings
    choices: int  # number of values among which each seed chose itself


def differences(
    table: ResultTable, margin: float | None = None, baseline: Mapping[str, Any] | None = None
) -> dict[Place, RowComparison]:
    """Compare a table's cells with their dense cells.

    The comparisons with one dense cell are simultaneous. The baseline of a cell is the dense cell of its column whose
    row is most like its own, else the first of its row, with the same score, data and length of training. Cells without
    a baseline, with other test items than it, or without runs are left out, as are the baselines. Shows progress on
    stderr.

    Args:
        table: The table.
        margin: δ in units of the first column's score; the metric's default if not given, and for a loss beside another
            score; 0 tests for differences only.
        baseline: Values by key of the baseline cells; the dense ones if not given.

    Returns:
        Comparisons by place. Those with one dense cell are together, in the order of rows, then columns.
    """
    groups: dict[tuple[str, int], tuple[Figure, dict[Place, Figure]]] = {}
    for place, figure, candidates, score in _candidates(table, baseline):
        dense = next((other for other in candidates if other.lengths == figure.lengths), None)
        if dense is not None and not lacks_direction(score):
            groups.setdefault((score, id(dense)), (dense, {}))[1][place] = figure
    compared = list[RowComparison]()
    reader, rows = RunItems(), {id(figure): place[0] for place, figure in table.cells.items()}
    total = sum(len(figures) for _, figures in groups.values())
    with progress("comparing with the dense cells", total, "cells") as advance:
        for (score, _), (dense, figures) in groups.items():
            pairs = _compared(figures, dense, score, _margin(table, score, margin), reader)
            compared += [replace(pair, baseline=rows[id(dense)]) for pair in pairs]
            advance(len(figures))
    return {pair.place: pair for pair in _as_trained(table, compared)}


def _as_trained(table: ResultTable, compared: Sequence[RowComparison]) -> list[RowComparison]:
    """Return the comparisons, in which a loss, which has no floor, is untrained where a score of its cell is."""
    by_cell, shown = {(*pair.place, pair.beside): pair for pair in compared}, []
    for pair in compared:
        row, column = pair.place
        entries = table.cells[row, column].entries
        cells = [other for other, cell in enumerate(table.figures[row]) if cell.entries == entries]
        beside = [by_cell.get((row, other, pair.beside)) for other in cells]
        untrained = next((other for other in beside if other and other.verdict is Verdict.UNTRAINED), None)
        if untrained and table.headings[column].score == TEST_LOSS:
            reason = untrained.judgement.reason or "its score beats no floor"
            judgement = replace(pair.judgement, verdict=Verdict.UNTRAINED, reason=reason, needed=None)
            pair = replace(pair, judgement=judgement)
        shown.append(pair)
    return shown


def all_pairs(
    table: ResultTable, margin: float | None = None, rows: Collection[int] | None = None
) -> list[RowComparison]:
    """Compare all rows of each column with one another; the level is shared by all pairs of a column.

    Rows without runs are left out, as are pairs of different data, test items or
    lengths of training. Pairs are in the order of columns, then of their rows, each of a row with an earlier one. Shows
    progress on stderr.

    Args:
        table: The table.
        margin: δ in units of the first column's score; the metric's default if not given, and for a loss beside another
            score; 0 tests for differences only.
        rows: Indices of the rows to compare; all if not given.
    """
    reader, compared = RunItems(), list[RowComparison]()
    families: dict[int, list[tuple[tuple[int, Figure], ...]]] = {}
    for column, heading in enumerate(table.headings):
        cells = [(row, line[column]) for row, line in enumerate(table.figures) if rows is None or row in rows]
        pairs = combinations([] if lacks_direction(heading.score) else [its for its in cells if its[1].has_ended], 2)
        families[column] = [(a, b) for a, b in pairs if a[1].lengths == b[1].lengths and a[1].data == b[1].data]
    with progress("comparing all pairs", sum(map(len, families.values())), "pairs") as advance:
        for column, family in families.items():
            for (beside, other), (row, figure) in family:
                cell = {(row, column): figure}
                its = _margin(table, figure.score, margin)
                compared += _compared(cell, other, figure.score, its, reader, len(family), beside)
                advance(1)
    return _as_trained(table, compared)


def _margin(table: ResultTable, score: str, margin: float | None) -> float | None:
    """Return a score's margin: that of the table, but none for a loss, in nats, beside another score."""
    return None if score == TEST_LOSS != table.headings[0].score else margin


def _compared(
    figures: Mapping[Place, Figure],
    dense: Figure,
    score: str,
    margin: float | None,
    reader: RunItems,
    family: int = 0,
    beside: int | None = None,
) -> Iterator[RowComparison]:
    """Yield the comparisons of cells with one dense cell, simultaneously.

    Cells scored on other items are left out, and do not count for the level. Intervals over items are added if they
    are known, and the column has no factor. ``family`` is the number of comparisons that share the level, if more than
    ``figures``.
    """
    metric = metric_of(score)
    usual = metric.margin and metric.margin * dense.factor
    question = Question((usual if margin is None else margin) or None, metric.lower_is_better)
    reference = _scored(dense, score)
    rows, items = _paired({at: _scored(cell, score) for at, cell in figures.items()}, reference, score, reader)
    floors: dict[str, list[float]] = {}
    for name in floors_of(score):
        scores = [entry.run.score(name) for entry in dense.entries if entry.run]
        if values := [value for value in scores if value is not None]:
            values = values[:1] if len(set(values)) == 1 else values  # one value: a constant
            floors[name.partition(OF)[2]] = [value * dense.factor for value in values]
    means = {name: fmean(values) for name, values in floors.items()}
    best = (min if metric.lower_is_better else max)(means, key=lambda name: means[name], default=None)
    sharing = max(len(rows), family)
    judged = judge(
        {name: row.values for name, row in rows.items()},
        reference.values,
        question,
        floors=list(floors.values()),
        items=items if dense.factor == 1 else {},
        rows=sharing,
    )
    for place, row in rows.items():
        dropped, choices = max(row.dropped, reference.dropped), max(row.choices, reference.choices)
        floor = None if best is None else (best, means[best])
        yield RowComparison(judged[place], question, sharing, place, beside, floor, dropped, choices)


def _scored(figure: Figure, score: str) -> _Scored:
    """Return the scores of a cell's counted seeds, sorted by seed.

    Seeds that chose its settings are left out and counted in ``dropped``. A diverged run, or one past the divergence
    floor, is NaN and has no path among the runs; other runs without a score are left out. Of several experiments with
    one seed, the last counts. ``choices`` is the largest of its experiments.
    """
    values: dict[str, tuple[float, Run | None]] = {}
    dropped = 0
    for entry in figure.entries:
        value = entry.run.score(score) if entry.run else None
        value = None if value is None else value * figure.factor
        if value is None and not entry.diverged:
            continue
        if entry.chose_settings:
            dropped += 1
            continue
        seed = str(entry.seed if entry.seed is not None else entry.run.id if entry.run else "")
        counts = value is not None and entry.run is not None and not has_diverged(entry.run, score)
        values[seed] = (value, entry.run) if counts and entry.run and value is not None else (math.nan, None)
    ordered = [values[seed] for seed in sorted(values, key=lambda seed: (len(seed), seed))]
    choices = max((entry.choices for entry in figure.entries), default=0)
    return _Scored(tuple(value for value, _ in ordered), tuple(run for _, run in ordered if run), dropped, choices)


def _paired(
    rows: Mapping[Place, _Scored], reference: _Scored, score: str, reader: RunItems
) -> tuple[Mapping[Place, _Scored], dict[Place, ItemVariance]]:
    """Return the rows that were not scored on other items than the reference, and variances over items, by place.

    All rows, and no variances, if the score does not add up over items, or the items of the reference are not known.
    Rows whose items are not known are kept without a variance.
    """
    measure = metric_of(score).measure
    if measure is None or OF in score or not (dense := reader.of(reference.runs, score)):
        return rows, {}
    items = {place: reader.of(row.runs, score) for place, row in rows.items()}

    def is_alike(place: Place) -> bool:
        """True unless marks of items differ; an empty checksum of the file is not on record and is ignored."""
        runs = [*dense, *items[place]]
        return len({run.mark for run in runs}) == 1 and len({run.file for run in runs} - {""}) <= 1

    alike = {place: row for place, row in rows.items() if not items[place] or is_alike(place)}
    readable = {place: row for place, row in alike.items() if items[place]}
    reader.resampled([run for row in (reference, *readable.values()) for run in row.runs], score, measure)
    drawn = reader.resampled(reference.runs, score, measure)
    sides = {place: reader.resampled(row.runs, score, measure) for place, row in readable.items()}
    return alike, {place: variance_of_resamples(side, drawn) for place, side in sides.items()}


def withheld(table: ResultTable) -> dict[Place, str]:
    """Return the reasons, by place, of cells not compared.

    These are the cells whose baselines were all trained for another length: "not compared: trained for 500 steps, dense
    for 1,000 steps"; and those of a score whose direction is not known.
    """
    reasons = {}
    for place, figure, candidates, score in _candidates(table):
        if lacks_direction(score):
            reasons[place] = f"not compared: a metric of a plug-in must say whether lower or higher {score} is better"
        elif all(other.lengths != figure.lengths for other in candidates):
            reasons[place] = f"not compared: trained for {_listed(figure)}, dense for {_listed(candidates[0])}"
    return reasons


def _candidates(
    table: ResultTable, baseline: Mapping[str, Any] | None = None
) -> Iterator[tuple[Place, Figure, Sequence[Figure], str]]:
    """Yield place, cell, possible baselines, and score, that of the column.

    The nearest baseline is the first. Baselines have its score, factor and data; those of its column come before those
    of its row, and in the column those whose rows have the most equal labels: "phm, width 16" is beside "dense, width
    16". Cells without runs, without candidates, and baselines themselves are skipped.
    """

    def unlike(at: Place) -> int:
        """Return the number of labels in which a baseline's row differs from the cell's."""
        return sum(map(ne, table.rows[at[0]], table.rows[row]))

    def is_baseline(figure: Figure) -> bool:
        """True if all experiments of a cell are dense, named by their sweep, or match ``baseline`` if it is given."""
        return all(entry.is_baseline if baseline is None else entry.matches(baseline) for entry in figure.entries)

    alike = attrgetter("score", "data", "factor")
    ended = {place: figure for place, figure in table.cells.items() if figure.has_ended}
    bases = {place: figure for place, figure in ended.items() if is_baseline(figure)}
    for (row, column), figure in ended.items():
        if (row, column) in bases:
            continue
        beside = sorted((at for at in bases if at[1] == column), key=unlike)
        nearest = [bases[at] for at in [*beside, *(at for at in bases if at[0] == row)]]
        if candidates := [other for other in nearest if alike(other) == alike(figure)]:
            yield (row, column), figure, candidates, figure.score


def _listed(figure: Figure) -> str:
    """Return a cell's training lengths joined by "and"; an empty one is "an unknown number of steps"."""
    return " and ".join(length or "an unknown number of steps" for length in figure.lengths)
