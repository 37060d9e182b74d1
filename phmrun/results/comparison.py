"""Comparison of a table's cells with their dense cell, simultaneous over the cells that share it.

A verdict is over training seeds, with the test set fixed. An interval over test items is reported beside it. Seeds that
chose a row's settings are left out, so the verdict holds *at these settings*. Diverged runs count as collapsed. The
metric's floors are scores of the dense runs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from phmrun.metric import OF, floors_of, lacks_direction, metric_of
from phmrun.progress import progress
from phmrun.results.baselines import has_diverged
from phmrun.results.costs import HasRun
from phmrun.results.items import RunItems
from phmrun.results.row_comparison import Place, RowComparison, Scored
from phmrun.results.table import Figure, ResultTable
from phmrun.statistics.items import ItemVariance, variance_of_resamples
from phmrun.statistics.verdict import Question, judge


def differences(
    table: ResultTable, margin: float | None = None, baseline: Mapping[str, Any] | None = None
) -> dict[Place, RowComparison]:
    """Compare a table's cells with their dense cells.

    The comparisons with one dense cell are simultaneous. The baseline of a cell is the first dense cell of its column,
    else of its row, with the same score, data and length of training. Cells without a baseline, with other test items
    than it, or without runs are left out, as are the baselines. Shows progress on stderr.

    Args:
        table: The table.
        margin: δ in units of the score; the metric's default if not given; 0 tests for differences only.
        baseline: Values by key of the baseline cells; the dense ones if not given.

    Returns:
        Comparisons by place (row, column). Those with one dense cell are together, in the order of rows, then columns.
    """
    groups: dict[tuple[str, int], tuple[Figure, dict[Place, Figure]]] = {}
    listed = list(pairs(table, baseline))
    for place, figure, dense, score in listed:
        groups.setdefault((score, id(dense)), (dense, {}))[1][place] = figure
    compared: dict[Place, RowComparison] = {}
    reader = RunItems()
    with progress("comparing with the dense cells", len(listed), "cells") as advance:
        for (score, _), (dense, figures) in groups.items():
            compared |= compare_cells(figures, dense, score, margin, reader)
            advance(len(figures))
    return compared


def compare_cells(
    figures: Mapping[Place, Figure],
    dense: Figure,
    score: str,
    margin: float | None = None,
    reader: RunItems | None = None,
    family: int = 0,
) -> dict[Place, RowComparison]:
    """Compare cells with one dense cell, simultaneously.

    Cells scored on other items are left out, and do not count for the level. Intervals over items are added if they
    are known.

    Args:
        figures: Cells by place.
        dense: The dense cell.
        score: Name of the score.
        margin: δ in units of the score; the metric's default if not given; 0 tests for differences only.
        reader: Cache of items' counts; a new one if not given.
        family: Comparisons that share the level, if more than ``figures``.

    Returns:
        Comparisons by place.
    """
    metric = metric_of(score)
    question = Question((metric.margin if margin is None else margin) or None, metric.lower_is_better)
    reference, reader = scored(dense, score), reader or RunItems()
    rows: dict[str, Sequence[float]] = {}
    kept: dict[str, tuple[Place, Scored]] = {}
    for place, figure in figures.items():
        row = scored(figure, score)
        if same_items(row, reference, score, reader):
            kept[f"{place}"], rows[f"{place}"] = (place, row), row.values
    items = _item_variances({name: row for name, (_, row) in kept.items()}, reference, score, reader)
    floors = floor_scores(dense.entries, score)
    sharing = max(len(kept), family)
    judged = judge(rows, reference.values, question, floors=list(floors.values()), items=items, rows=sharing)
    best = best_floor(floors, lower_is_better=metric.lower_is_better)
    return {
        place: RowComparison(
            judged[name],
            question,
            sharing,
            best,
            max(row.dropped, reference.dropped),
            choices=max(row.choices, reference.choices),
        )
        for name, (place, row) in kept.items()
    }


def scored(figure: Figure, score: str) -> Scored:
    """Return the scores of a cell's counted seeds, sorted by seed.

    Seeds that chose its settings are left out and counted in ``dropped``. A diverged run, or one past the divergence
    floor, is NaN and has no path among the runs; other runs without a score are left out. Of several experiments with
    one seed, the last counts. ``choices`` is the largest of its experiments.
    """
    values: dict[str, tuple[float, Path | None]] = {}
    dropped = 0
    for entry in figure.entries:
        value = entry.run.score(score) if entry.run else None
        if value is None and not entry.diverged:
            continue
        if has_diverged(entry.run, score):
            value = None
        if entry.chose_settings:
            dropped += 1
            continue
        seed = str(entry.seed if entry.seed is not None else entry.run.id if entry.run else "")
        values[seed] = (
            math.nan if value is None else value,
            entry.run.path if entry.run and value is not None else None,
        )
    choices = max((entry.choices for entry in figure.entries), default=0)
    ordered = [values[seed] for seed in sorted(values, key=lambda seed: (len(seed), seed))]
    return Scored(tuple(value for value, _ in ordered), tuple(path for _, path in ordered if path), dropped, choices)


def floor_scores(entries: Sequence[HasRun], score: str) -> dict[str, list[float]]:
    """Return the floors' scores in the runs of a row, by the floors' full names.

    A floor with the same value in all runs is constant, and has a single value; one that no run has is left out.
    """
    floors: dict[str, list[float]] = {}
    for name in floors_of(score):
        values = [entry.run.score(name) for entry in entries if entry.run]
        distinct = list(dict.fromkeys(value for value in values if value is not None))
        if distinct:
            floors[name] = distinct if len(distinct) == 1 else [value for value in values if value is not None]
    return floors


def best_floor(floors: Mapping[str, Sequence[float]], *, lower_is_better: bool) -> tuple[str, float] | None:
    """Return the best floor: its name behind "-of-", and its mean score.

    The best is the smallest if lower is better. The result is ``None`` without floors.
    """
    means = {name.partition(OF)[2]: fmean(values) for name, values in floors.items()}
    if not means:
        return None
    name = (min if lower_is_better else max)(means, key=lambda key: means[key])
    return name, means[name]


def same_items(row: Scored, reference: Scored, score: str, reader: RunItems) -> bool:
    """True unless two cells were scored on different items.

    The records must show it. True, too, if the items of any run cannot be read, or the score does not add up over
    items.
    """
    metric = metric_of(score)
    if metric.measure is None or OF in score:
        return True
    read = [reader.of(side.runs, score) for side in (row, reference)]
    if not all(read):
        return True
    runs = [item for side in read for item in side]
    # Different marks mean different items. An empty checksum of the file is not on record and is ignored.
    return len({run.mark for run in runs}) == 1 and len({run.file for run in runs} - {""}) <= 1


def _item_variances(
    rows: Mapping[str, Scored], reference: Scored, score: str, reader: RunItems
) -> dict[str, ItemVariance]:
    """Return the variance over test items of each row's difference, by name.

    Rows with a run whose items are missing are left out, as are all if a run of the reference is one, or if the score
    does not add up over items.
    """
    measure = metric_of(score).measure
    if measure is None or OF in score or not reader.of(reference.runs, score):
        return {}
    readable = {name: row for name, row in rows.items() if reader.of(row.runs, score)}
    reader.resampled([path for row in (reference, *readable.values()) for path in row.runs], score, measure)
    dense = reader.resampled(reference.runs, score, measure)
    return {
        name: variance_of_resamples(reader.resampled(row.runs, score, measure), dense) for name, row in readable.items()
    }


def pairs(table: ResultTable, baseline: Mapping[str, Any] | None = None) -> Iterator[tuple[Place, Figure, Figure, str]]:
    """Yield place, cell, baseline cell, and score.

    Cells are in the order of rows, then columns. The baseline is the nearest one of the cell's training length; cells
    without one are left out, as are scores whose direction is not known. The score is the first of the column.
    """
    for place, figure, candidates, score in _candidates(table, baseline):
        if lacks_direction(score):
            continue
        alike = (other for other in candidates if other.lengths == figure.lengths)
        if (other := next(alike, None)) is not None:
            yield place, figure, other, score


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
) -> Iterator[tuple[Place, Figure, list[Figure], str]]:
    """Yield place, cell, possible baselines, and score.

    The nearest baseline is the first. Baselines have its score and data; those of its column come before those of its
    row. Cells without runs, without candidates, and baselines themselves are skipped.
    """
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            score = table.headings[column].scores[0]
            if not figure.has_ended or _is_baseline(figure, baseline):
                continue
            same_score = [other for at, other in enumerate(figures) if table.headings[at].scores[0] == score]
            below = [line[column] for line in table.figures] + same_score
            candidates = [
                other for other in below
                if other.has_ended and _is_baseline(other, baseline) and data_of(other) == data_of(figure)
            ]  # fmt: skip
            if candidates:
                yield (row, column), figure, candidates, score


def _listed(figure: Figure) -> str:
    """Return a cell's training lengths joined by "and".

    An empty one is "an unknown number of steps".
    """
    return " and ".join(length or "an unknown number of steps" for length in figure.lengths)


def _is_baseline(figure: Figure, where: Mapping[str, Any] | None) -> bool:
    """True if all experiments of a cell are baselines.

    They are dense, or the ones that their sweep names. If ``where`` is given, they must match it instead.
    """
    return all(entry.is_baseline if where is None else entry.matches(where) for entry in figure.entries)


def data_of(figure: Figure) -> set[str]:
    """Return the distinct texts "TASK DATA" of a cell's experiments."""
    return {f"{entry.label('task')} {entry.label('data')}" for entry in figure.entries}
