"""Layout of a table of results as text, with notes.

Imports no torch.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from phmrun.config.experiment import provenance_values
from phmrun.config.provenance import grouped, kind_of
from phmrun.ledger.recorded_run import PREFIX
from phmrun.metric import metric_of
from phmrun.results.baselines import BaselineRow, baseline_rows, has_diverged
from phmrun.results.comparison import withheld
from phmrun.results.costs import COSTS, MISSING, VERDICT_COSTS, Point, cost_of, cost_texts, frontier, meanings
from phmrun.results.table import Figure, Numbers, ResultTable, rounded
from phmrun.results.validations import validation_curve
from phmrun.results.verdicts import COLLAPSED, HEADINGS, MARKS, Comparisons, collapsed_cell, facts, verdict_cells
from phmrun.results.verdicts import notes as verdict_notes
from phmrun.statistics.student import interval_of_mean

REDUCED, UNFINISHED, EDGE = "‡", "†", "(edge)"
Differences = Comparisons


@dataclass(frozen=True)
class Laid:
    """Table of texts with notes."""

    title: str  # its title
    columns: list[str]  # headings
    rows: list[list[Any]]  # cells; counts are numbers
    notes: list[str]  # notes below the table
    verdict_columns: list[str] = field(default_factory=list)  # headings of the verdicts' table
    verdict_rows: list[list[str]] = field(default_factory=list)  # one row per comparison


def lay_out(
    table: ResultTable,
    how: str,
    differences: Differences,
    *,
    paper: bool,
    costs: Sequence[str] = (),
    front: str | None = None,
) -> Laid:
    """Return the table for readers.

    It has texts of all cells, notes, and the verdicts' table. Costs stand once per row, or per column if the networks
    of a row differ. Baselines are the last rows. A score is "–" if not all scores of its cell have a value. Marks:
    ‡ reduced settings, † unfinished runs, "(edge)" tuned values at an edge, and those of verdicts.

    Args:
        table: The results.
        how: Aggregation over seeds, see :func:`_shown`: "mean±std", "mean", "median", "best", "worst" or "all".
        differences: Comparisons with the dense cells, by row and column.
        paper: True to show the published values beside ours.
        costs: Names of :data:`phmrun.results.costs.COSTS` to show beside the parameters.
        front: Cost that orders the rows, ascending, unknown ones last. A further column per score says "yes" for rows
            on the Pareto front.
    """
    shown = list(dict.fromkeys(name for name in [*costs, *filter(None, [front])] if name != "parameters"))
    headings = ["parameters", *(COSTS[name].heading for name in shown)]
    apart = any(len(counts) > 1 for counts in table.parameters)  # the sizes of the networks differ between columns
    columns = [*table.keys, *(() if apart else headings)]
    for heading in table.headings:
        columns += [heading.name, *(headings if apart else ()), *(("paper", "Δ") if paper else ())]
        columns += [f"front of {COSTS[front].heading}"] if front else []
    columns.append("seeds")
    fronts = [_front(table, place, front) for place in range(len(table.headings))] if front else []
    rows = []
    order = list(range(len(table.rows)))  # the table's order, or by a cost with unknown ones last
    if front:
        amounts = [cost_of(table.entries(number), front) for number in order]
        order.sort(key=lambda number: math.inf if (amount := amounts[number]) is None else amount)
    for number in order:
        figures = table.figures[number]
        entries = table.entries(number)
        edges = {key for entry in entries for key in entry.at_edge}
        labels = zip(table.keys, table.rows[number], strict=True)
        line: list[Any] = [f"{label} {EDGE}" if key in edges else label for key, label in labels]
        line += [] if apart else [_parameters(table.parameters[number]), *cost_texts(entries, shown)]
        for place, figure in enumerate(figures):
            difference = differences.get((number, place))
            unfinished = UNFINISHED if any(entry.unfinished for entry in figure.entries) else ""
            mark = (REDUCED if table.reduced else "") + unfinished + (MARKS[difference.verdict] if difference else "")
            line.append(
                " / ".join(_shown(numbers, how) for numbers in figure.numbers) + mark if figure.runs else MISSING
            )
            line += [_parameters(figure.parameters), *cost_texts(figure.entries, shown)] if apart else []
            if paper:
                line += [figure.printed or MISSING, _delta(figure)]
            line += ["yes" if number in fronts[place] else ""] if front else []
        # seeds done and planned in the cells of a row
        counts = sorted({(figure.runs, len(figure.entries)) for figure in figures if figure.entries})
        seeds = ", ".join(f"{runs}" if runs == planned else f"{runs} of {planned}" for runs, planned in counts)
        rows.append([*line, seeds or MISSING])
    rows += [_baseline_line(row, table, columns) for row in baseline_rows(table)]
    notes = [*_notes(table, differences, paper), *meanings((f for line in table.figures for f in line), shown)]
    return Laid(table.title, columns, rows, notes, *_verdicts(table, differences))


def _verdicts(table: ResultTable, differences: Differences) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the verdicts' table.

    Rows are sorted by row and column of the table. A row has its name, the column's name if there are several columns,
    the verdict's cells, the shares of collapsed seeds if any comparison has some, and costs. Both lists are empty
    without comparisons.
    """
    several = len(table.headings) > 1
    names = list(VERDICT_COSTS)
    collapsed = [COLLAPSED] if any(any(comparison.judgement.collapsed) for comparison in differences.values()) else []
    columns = ["row", *(["score"] if several else []), *HEADINGS, *collapsed, *(COSTS[name].heading for name in names)]
    rows = []
    for (row, column), comparison in sorted(differences.items()):
        score = [table.headings[column].name] if several else []
        costs = cost_texts(table.figures[row][column].entries, names)
        share = [collapsed_cell(comparison)] if collapsed else []
        rows.append([table.names[row], *score, *verdict_cells(comparison), *share, *costs])
    return (columns, rows) if rows else ([], [])


def _baseline_line(row: BaselineRow, table: ResultTable, columns: Sequence[str]) -> list[Any]:
    """Return the line of a baseline: name, then its score in each column.

    The name includes the kind; a score has two decimals, "–" if it was not measured. Other cells are empty.
    """
    line: list[Any] = [""] * len(columns)
    line[0] = row.label
    for heading, value in zip(table.headings, row.values, strict=True):
        line[columns.index(heading.name, len(table.keys))] = MISSING if value is None else rounded(value)
    return line


def _front(table: ResultTable, column: int, cost: str) -> set[int]:
    """Return the indices of rows on the Pareto front of a cost.

    The score is the column's first. Rows without the cost or the score are left out.
    """
    points = []
    for number, figures in enumerate(table.figures):
        size, mean = cost_of(figures[column].entries, cost), figures[column].numbers[0].mean
        if size is not None and mean is not None:
            points.append(Point(str(number), size, mean, None))
    lower = metric_of(table.headings[column].scores[0]).lower_is_better
    return {int(point.label) for point in frontier(points, lower=lower)}


def plain_rows(table: ResultTable, differences: Differences) -> list[dict[str, Any]]:
    """Return one object per cell and score, for JSON and spreadsheets.

    They are in the order of rows, columns, scores. Keys: those of the table's rows; column, score, mean, std, values,
    interval_of_mean, interval_of_one_run, seeds, planned, parameters, multiplications, training_seconds,
    seconds_per_step, at_edge, published, printed, delta, comparable, reduced, validation (of compared cells);
    those of :func:`~phmrun.results.verdicts.facts`; not_compared, states, steps, signatures, runs. Numbers are not
    rounded; missing ones are ``None``. Intervals are of 95 %. ``parameters`` is the least count of the row's networks.
    """
    cells, reasons = [], withheld(table)
    for number, labels in enumerate(table.rows):
        for place, (heading, figure) in enumerate(zip(table.headings, table.figures[number], strict=True)):
            for score, numbers in zip(heading.scores, figure.numbers, strict=True):
                difference = differences.get((number, place))
                cells.append(
                    {
                        **dict(zip(table.keys, labels, strict=True)),
                        "column": heading.name,
                        "score": score,
                        "mean": numbers.mean,
                        "std": numbers.deviation,
                        "values": list(numbers.values),
                        "interval_of_mean": metric_of(score).bounded(interval_of_mean(numbers.values)),
                        "interval_of_one_run": metric_of(score).bounded(interval_of_mean(numbers.values, runs=1)),
                        "seeds": len(numbers.values),
                        "planned": len(figure.entries),
                        "parameters": table.parameters[number][0] if table.parameters[number] else None,
                        "multiplications": cost_of(figure.entries, "multiplications"),
                        "training_seconds": cost_of(figure.entries, "training-time"),
                        "seconds_per_step": cost_of(figure.entries, "step-time"),
                        "at_edge": sorted({key for entry in figure.entries for key in entry.at_edge}),
                        "published": numbers.published,
                        "printed": figure.printed,
                        "delta": numbers.delta,
                        "comparable": figure.comparable,
                        "reduced": table.reduced or None,
                        "validation": _curve(figure, score) if difference else None,
                        **facts(difference),
                        "not_compared": reasons.get((number, place)),
                        "states": [entry.run.state for entry in figure.entries if entry.run],
                        "steps": [entry.run.status.step for entry in figure.entries if entry.run and entry.run.status],
                        "signatures": list(numbers.signatures),
                        "runs": [entry.run.id for entry in figure.entries if entry.run],
                    }
                )
    return cells


def _curve(figure: Figure, score: str) -> dict[str, Any]:
    """Return a cell's validation score and curve, for JSON.

    Keys: score, curve. The curve is a list of (step, mean over runs); without one, the score is ``None`` and the curve
    empty.
    """
    name, curve = validation_curve(figure, score)
    return {"score": name or None, "curve": curve}


def _shown(numbers: Numbers, how: str) -> str:
    """Return a score over seeds as text.

    ``how`` "all": the values with spaces; "mean±std": "mean ± deviation", without the latter for a single value, and
    "0.00" without values; else the aggregate, "–" without values. Numbers have two decimals.
    """
    if how == "all":
        return " ".join(rounded(value) for value in numbers.values)
    if how == "mean±std":
        spread = f" ± {rounded(numbers.deviation)}" if numbers.deviation is not None else ""
        return f"{rounded(numbers.mean or 0.0)}{spread}"
    value = numbers.aggregate(how)
    return MISSING if value is None else rounded(value)


def _delta(figure: Figure) -> str:
    """Return our mean minus the published value, with sign: "+0.31".

    "–" if either is missing; several scores are joined by " / ". In round brackets if the two are not comparable.
    """
    deltas = [numbers.delta for numbers in figure.numbers]
    if not any(delta is not None for delta in deltas):
        return MISSING
    text = " / ".join(MISSING if delta is None else f"{delta:+.2f}" for delta in deltas)
    return text if figure.comparable else f"({text})"


def _parameters(counts: tuple[int, ...]) -> Any:
    """Return a parameter count, or the text "least–greatest" for several.

    ``counts`` ascend; without any, the result is ``None``.
    """
    if not counts:
        return None
    return counts[0] if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"


def _notes(table: ResultTable, differences: Differences, paper: bool) -> Iterable[str]:
    """Yield the notes below a table, each only if it applies.

    In this order: reduced settings, unfinished runs, settings that the paper does not state (only with ``paper``),
    verdicts, tuning, the deviation, cells not compared, diverged seeds, incomparable scores, and signatures.
    """
    if table.reduced:
        yield f"{REDUCED} reduced settings: {table.reduced}"
    unfinished = [entry.unfinished for row in range(len(table.rows)) for entry in table.entries(row)]
    if any(unfinished):
        yield f"{UNFINISHED} not finished: {'; '.join(dict.fromkeys(filter(None, unfinished)))}"
    if paper:
        entries = [entry for row in range(len(table.rows)) for entry in table.entries(row)]
        settings = {key: value for entry in entries for key, value in provenance_values(entry.config).items()}
        counts = Counter(kind_of(text) for _, text in settings.values())
        others = [f"{text}: {keys}" for text, keys in grouped(settings) if kind_of(text) != "said"]
        if others:
            stated = f"; {counts['said']} settings are stated in it" if counts["said"] else ""
            yield f"not stated by the paper: {'; '.join(others)}{stated}"
    yield from verdict_notes(table, differences, table.names)
    yield from _tuned(table)
    if any(numbers.deviation is not None for line in table.figures for figure in line for numbers in figure.numbers):
        chose = any(comparison.dropped for comparison in differences.values())
        all_of = ", those that chose settings among them: differences leave these out" if chose else ""
        intervals = "--json has the 95 % intervals of the mean over seeds and of one further run"
        yield f"±: the deviation over seeds{all_of}; {intervals}"
    for (row, column), text in sorted(withheld(table).items()):
        under = f", {table.headings[column].name}" if len(table.headings) > 1 else ""
        yield f"{table.names[row]}{under}: {text}"
    yield from _diverged(table)
    figures = [figure for line in table.figures for figure in line if figure.runs]
    if paper and any(figure.printed and not figure.comparable for figure in figures):
        yield "(Δ): different evaluation settings, or the paper does not state them; see the signatures"
    for place, heading in enumerate(table.headings):
        numbers_below = [numbers for line in table.figures for numbers in line[place].numbers]
        ours = dict.fromkeys(name for numbers in numbers_below for name in numbers.signatures if name)
        yield from (f"{heading.name}: {name}" for name in ours)
        below = [line[place] for line in table.figures if any(entry.run for entry in line[place].entries)]
        if heading.scores[0].startswith(PREFIX) and not all(figure.runs for figure in below):
            yield f"{heading.name}: `phmrun bench run RUN` measures it, run by run"
        if paper and ours and heading.published:
            yield f"{heading.name}: paper: {heading.published.signature or heading.published.measured}"


def _diverged(table: ResultTable) -> Iterable[str]:
    """Yield a note for each row with diverged seeds.

    A seed has diverged if its training did, or if a column's first score is worse than the divergence floor. The note:
    "phm n=4: 1 of 3 seeds diverged".
    """
    for row in range(len(table.rows)):
        entries = table.entries(row)
        scores = [heading.scores[0] for heading in table.headings]
        if count := sum(entry.diverged or any(has_diverged(entry.run, score) for score in scores) for entry in entries):
            yield f"{table.names[row]}: {count} of {len(entries)} seeds diverged"


def _tuned(table: ResultTable) -> Iterable[str]:
    """Yield the tuned values of rows, if the table's only key is "row".

    Other tables have columns for them. The last note explains the edge mark, if any row has it.
    """
    edge = False
    for number in range(len(table.rows)):
        entries = table.entries(number)
        edge = edge or any(entry.at_edge for entry in entries)
        if table.keys == ("row",):
            tuned = {key: entry.at[key] for entry in entries for key in entry.at if "." in key}
            at_edge = {key for entry in entries for key in entry.at_edge}
            values = ", ".join(f"{key} = {value}{f' {EDGE}' if key in at_edge else ''}" for key, value in tuned.items())
            if values:
                yield f"{table.rows[number][0]}: tuned on validation: {values}"
    if edge:
        yield f"{EDGE}: the best value is the least or the greatest that was tried; a better one may lie beyond"
