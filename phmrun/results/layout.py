"""Table of results as texts with notes, and as plain values.

Imports no torch.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from phmrun.config.experiment import provenance_values
from phmrun.config.provenance import grouped, kind_of
from phmrun.errors import PhmrunError, counted
from phmrun.ledger.history import shown as shown_value
from phmrun.ledger.scores import PREFIX
from phmrun.metric import metric_of
from phmrun.results.baselines import baseline_rows, has_diverged
from phmrun.results.comparison import Comparisons, RowComparison, withheld
from phmrun.results.costs import COSTS, VERDICT_COSTS, cost_of, cost_texts, frontier, meanings, points_of
from phmrun.results.table import MISSING, REDUCED, Figure, ResultTable, rounded
from phmrun.statistics.student import interval_of_mean
from phmrun.statistics.verdict import Verdict
from phmrun.statistics.welch import LEVEL

UNFINISHED, EDGE = "†", "(edge)"
MARKS = {
    Verdict.DIFFERENT: "*",
    Verdict.EQUIVALENT: "≈",
    Verdict.NOT_WORSE: "≈",
    Verdict.UNTRAINED: "°",
    Verdict.UNDECIDED: "",
}
HEADINGS = ("Δ", "95 % interval", "p", "detectable", "seeds", "verdict")
COLLAPSED = "outlying: row, dense; p"
FACTS = (
    *("verdict", "better", "difference", "interval", "p", "margin", "detectable", "interval_over_items"),
    *("reason", "collapsed", "compared_seeds", "p_collapsed", "trained", "floor", "seeds_needed", "estimand"),
)


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
    compared: Comparisons,
    *,
    paper: bool,
    costs: Sequence[str] = (),
    front: str | None = None,
    pairs: Sequence[RowComparison] = (),
) -> Laid:
    """Return the table for readers.

    It has texts of all cells, notes, and the verdicts' table. Costs stand once per row, or per column if the networks
    of a row differ. Baselines are the last rows. A score is "–" if not all scores of its cell have a value. Marks:
    ‡ reduced settings, † unfinished runs, "(edge)" tuned values at an edge, and those of verdicts.

    Args:
        table: The results.
        how: Aggregation over seeds: "mean±std", "mean", "median", "best", "worst" or "all".
        compared: Comparisons with the dense cells, by row and column.
        paper: True to show the published values beside ours.
        costs: Names of :data:`phmrun.results.costs.COSTS` to show beside the parameters.
        front: Cost that orders the rows, ascending, unknown ones last. A further column per score says "yes" for rows
            on the Pareto front.
        pairs: Comparisons of all rows with one another, which take the place of verdicts.
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
    order = list(range(len(table.rows)))  # the table's order, or by a cost with unknown ones last
    if front:
        amounts = [cost_of(table.entries(number), front) for number in order]
        order.sort(key=lambda number: math.inf if (amount := amounts[number]) is None else amount)
    rows = []
    for number in order:
        entries, figures = table.entries(number), table.figures[number]
        edges = {key for entry in entries for key in entry.at_edge}
        labels = zip(table.keys, table.rows[number], strict=True)
        line: list[Any] = [f"{label} {EDGE}" if key in edges else label for key, label in labels]
        line += [] if apart else [_parameters(table.parameters[number]), *cost_texts(entries, shown)]
        for place, figure in enumerate(figures):
            mark = (REDUCED if table.reduced else "") + (
                UNFINISHED if any(e.unfinished for e in figure.entries) else ""
            )
            mark += MARKS[compared[number, place].verdict] if (number, place) in compared else ""
            line.append(" / ".join(item.text(how) for item in figure.numbers) + mark if figure.runs else MISSING)
            line += [_parameters(figure.parameters), *cost_texts(figure.entries, shown)] if apart else []
            line += [figure.printed or MISSING, _delta(figure)] if paper else []
            line += ["yes" if number in fronts[place] else ""] if front else []
        # seeds done and planned in the cells of a row
        counts = sorted({(figure.runs, len(figure.entries)) for figure in figures if figure.entries})
        seeds = ", ".join(f"{runs}" if runs == planned else f"{runs} of {planned}" for runs, planned in counts)
        rows.append([*line, seeds or MISSING])
    for row in baseline_rows(table):
        line = [row.label, *[""] * (len(columns) - 1)]
        for heading, value in zip(table.headings, row.values, strict=True):
            line[columns.index(heading.name, len(table.keys))] = MISSING if value is None else rounded(value)
        rows.append(line)
    notes = [*_notes(table, compared, paper), *meanings((f for line in table.figures for f in line), shown)]
    if pairs:
        json = "--json has each pair's interval over test items, and the seeds that are likely to decide it"
        notes = [*pair_notes(table, pairs), json, *notes]
    comparisons = pairs or [compared[place] for place in sorted(compared)]
    return Laid(table.title, columns, rows, notes, *verdict_table(table, comparisons))


def verdict_table(table: ResultTable, comparisons: Sequence[RowComparison]) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of a table of verdicts; both are empty without comparisons.

    A row has its name, that of the row beside it for pairs, the column's name if there are several columns, and the
    verdict's cells. Rows beside dense also have the shares of collapsed seeds if any comparison has some, and costs.
    """
    if not comparisons:
        return [], []
    is_pair, several = comparisons[0].beside is not None, len(table.headings) > 1
    collapsed = not is_pair and any(any(comparison.judgement.collapsed) for comparison in comparisons)
    costs = [] if is_pair else list(VERDICT_COSTS)
    columns = ["row", *(["beside"] if is_pair else []), *(["score"] if several else []), *HEADINGS]
    columns += [*([COLLAPSED] if collapsed else []), *(COSTS[name].heading for name in costs)]
    rows = []
    for comparison in comparisons:
        row, column = comparison.place
        line = [table.names[row], *([] if comparison.beside is None else [table.names[comparison.beside]])]
        line += [*([table.headings[column].name] if several else []), *_verdict_cells(comparison)]
        line += [_collapsed_cell(comparison)] if collapsed else []
        rows.append([*line, *cost_texts(table.figures[row][column].entries, costs)])
    return columns, rows


def verdict_words(comparison: RowComparison) -> str:
    """Return a verdict in words.

    "different, better", "different, worse", "not worse by more than 0.5", "equivalent within 0.5", else its name.
    """
    words = {
        Verdict.DIFFERENT: f"different, {'better' if comparison.judgement.better else 'worse'}",
        Verdict.NOT_WORSE: f"not worse by more than {comparison.question.margin or 0:g}",
        Verdict.EQUIVALENT: f"equivalent within {comparison.question.margin or 0:g}",
    }
    return words.get(comparison.verdict, str(comparison.verdict))


def _verdict_cells(comparison: RowComparison) -> list[str]:
    """Return the six cells of a verdict, for the columns :data:`HEADINGS`.

    They are the difference, "low to high", p-value with two significant digits, detectable difference, seeds ("5, 4"
    for row and dense if they differ), and the verdict in words. Other numbers have two decimals. Without a difference,
    all cells except the last are empty.
    """
    shown, words = comparison.judgement.difference, verdict_words(comparison)
    if shown is None:
        return [*[""] * 5, words]
    seeds = ", ".join(map(str, dict.fromkeys(shown.seeds)))
    interval = f"{shown.low:+.2f} to {shown.high:+.2f}"
    return [f"{shown.value:+.2f}", interval, f"{shown.p:.2g}", f"{shown.detectable:.2f}", seeds, words]


def _collapsed_cell(comparison: RowComparison) -> str:
    """Return the shares of collapsed seeds of row and reference, and Fisher's p-value: "2 of 6, 0 of 6; 0.45"."""
    judgement = comparison.judgement
    shares = (f"{lost} of {all_of}" for lost, all_of in zip(judgement.collapsed, judgement.seeds, strict=True))
    return ", ".join(shares) + ("" if judgement.p_collapsed is None else f"; {judgement.p_collapsed:.2g}")


def _front(table: ResultTable, column: int, cost: str) -> set[int]:
    """Return the indices of rows on the Pareto front of a cost and a column's first score."""
    lower = metric_of(table.headings[column].scores[0]).lower_is_better
    points = points_of(table, column, cost)
    best = {id(point) for point in frontier([point for _, point in points.items()], lower=lower)}
    return {row for row, point in points.items() if id(point) in best}


def plain_rows(table: ResultTable, compared: Comparisons) -> list[dict[str, Any]]:
    """Return one object per cell and score, for JSON and spreadsheets.

    They are in the order of rows, columns, scores. Keys: those of the table's rows; column, score, mean, std, values,
    interval_of_mean, interval_of_one_run, seeds, planned, parameters, multiplications, training_seconds,
    seconds_per_step, at_edge, published, printed, delta, comparable, reduced, validation (of compared cells); those of
    :func:`facts`; not_compared, states, steps, signatures, runs. Numbers are not rounded; missing ones are ``None``.
    Intervals are of 95 %. ``parameters`` is the least count of the row's networks.
    """
    cells, reasons = [], withheld(table)
    for number, labels in enumerate(table.rows):
        for place, (heading, figure) in enumerate(zip(table.headings, table.figures[number], strict=True)):
            comparison, runs = compared.get((number, place)), [entry.run for entry in figure.entries if entry.run]
            for score, numbers in zip(heading.scores, figure.numbers, strict=True):
                bounded = metric_of(score).bounded
                cells.append(
                    {
                        **dict(zip(table.keys, labels, strict=True)),
                        "column": heading.name,
                        "score": score,
                        "mean": numbers.mean,
                        "std": numbers.deviation,
                        "values": list(numbers.values),
                        "interval_of_mean": bounded(interval_of_mean(numbers.values)),
                        "interval_of_one_run": bounded(interval_of_mean(numbers.values, runs=1)),
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
                        "validation": _validation(figure, score) if comparison else None,
                        **(facts(comparison) if comparison else dict.fromkeys(FACTS)),
                        "not_compared": reasons.get((number, place)),
                        "states": [run.state for run in runs],
                        "steps": [run.status.step for run in runs if run.status],
                        "signatures": list(numbers.signatures),
                        "runs": [run.id for run in runs],
                    }
                )
    return cells


def facts(comparison: RowComparison) -> dict[str, Any]:
    """Return a comparison for JSON, by the keys :data:`FACTS`; intervals and pairs (row, dense) are lists."""
    judgement, shown = comparison.judgement, comparison.judgement.difference
    return {
        "verdict": str(judgement.verdict),
        "better": judgement.better,
        "difference": shown.value if shown else None,
        "interval": [shown.low, shown.high] if shown else None,
        "p": shown.p if shown else None,
        "margin": comparison.question.margin,
        "detectable": shown.detectable if shown else None,
        "interval_over_items": list(judgement.over_items) if judgement.over_items else None,
        "reason": judgement.reason or None,
        "collapsed": list(judgement.collapsed),
        "compared_seeds": list(judgement.seeds),
        "p_collapsed": judgement.p_collapsed,
        "trained": judgement.trained,
        "floor": list(comparison.floor) if comparison.floor else None,
        "seeds_needed": judgement.needed,
        "estimand": f"difference of means over seeds, test set fixed; {comparison.settings}",
    }


def pair_facts(table: ResultTable, pairs: Sequence[RowComparison]) -> list[dict[str, Any]]:
    """Return one object per pair, for JSON and spreadsheets: row, beside, column, score, and those of :func:`facts`."""
    names, headings = table.names, table.headings
    return [
        {
            "row": names[pair.place[0]],
            "beside": names[pair.beside or 0],
            "column": headings[pair.place[1]].name,
            "score": headings[pair.place[1]].scores[0],
            **facts(pair),
        }
        for pair in pairs
    ]


def _validation(figure: Figure, score: str) -> dict[str, Any]:
    """Return a cell's validation score and curve, for JSON.

    Keys: score, curve. The score is the validation of ``score`` if all runs have one, else the loss. The curve is a
    list of (step, mean over runs) at the steps that all runs have. Runs without validations are left out, as are values
    that are not finite, and a history's rows from a damaged one on. Without a common score, the score is ``None`` and
    the curve empty.
    """
    histories: list[dict[str, dict[int, float]]] = []
    for entry in figure.entries:
        curves: dict[str, dict[int, float]] = {}
        with suppress(PhmrunError):
            for row in entry.run.history.rows("val/") if entry.run else ():
                for name, value in row.items():
                    if name.startswith("val/") and isinstance(value, int | float) and math.isfinite(value):
                        curves.setdefault(name, {})[int(row["step"])] = shown_value(name, value)
        histories += [curves] if curves else []
    wanted = (f"val/{metric_of(score).name}", "val/loss")
    common = [name for name in wanted if histories and all(name in curves for curves in histories)]
    by_step = [curves[common[0]] for curves in histories] if common else []
    steps = sorted(set.intersection(*map(set, by_step))) if by_step else []
    return {
        "score": common[0] if common else None,
        "curve": [(step, fmean(values[step] for values in by_step)) for step in steps],
    }


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
    """Return the only one of ascending parameter counts, the text "least–greatest" of several, or ``None``."""
    return f"{counts[0]:,}–{counts[-1]:,}" if len(counts) > 1 else next(iter(counts), None)


def _notes(table: ResultTable, compared: Comparisons, paper: bool) -> Iterator[str]:
    """Yield the notes below a table, each only if it applies.

    In this order: reduced settings, unfinished runs, settings that the paper does not state (only with ``paper``),
    verdicts, tuning, the deviation, cells not compared, diverged seeds, incomparable scores, and signatures.
    """
    entries = table.entries()
    if table.reduced:
        yield f"{REDUCED} reduced settings: {table.reduced}"
    if unfinished := dict.fromkeys(entry.unfinished for entry in entries if entry.unfinished):
        yield f"{UNFINISHED} not finished: {'; '.join(unfinished)}"
    if paper:
        settings = {key: value for entry in entries for key, value in provenance_values(entry.config).items()}
        counts = Counter(kind_of(text) for _, text in settings.values())
        others = [f"{text}: {keys}" for text, keys in grouped(settings) if kind_of(text) != "said"]
        if others:
            stated = f"; {counts['said']} settings are stated in it" if counts["said"] else ""
            yield f"not stated by the paper: {'; '.join(others)}{stated}"
    yield from _verdict_notes(table, compared)
    yield from _tuned(table)
    figures = [figure for line in table.figures for figure in line]
    if any(numbers.deviation is not None for figure in figures for numbers in figure.numbers):
        chose = any(comparison.dropped for comparison in compared.values())
        all_of = ", those that chose settings among them: differences leave these out" if chose else ""
        intervals = "--json has the 95 % intervals of the mean over seeds and of one further run"
        yield f"±: the deviation over seeds{all_of}; {intervals}"
    for (row, column), text in sorted(withheld(table).items()):
        yield f"{table.names[row]}{table.under(column)}: {text}"
    scores = [heading.scores[0] for heading in table.headings]
    for row, name in enumerate(table.names):  # past the divergence floor, or with a loss that is no number
        its = table.entries(row)
        if count := sum(entry.diverged or any(has_diverged(entry.run, score) for score in scores) for entry in its):
            yield f"{name}: {count} of {len(its)} seeds diverged"
    if paper and any(figure.printed and not figure.comparable for figure in figures if figure.runs):
        yield "(Δ): different evaluation settings, or the paper does not state them; see the signatures"
    for place, heading in enumerate(table.headings):
        below = [line[place] for line in table.figures]
        ours = dict.fromkeys(
            name for figure in below for number in figure.numbers for name in number.signatures if name
        )
        yield from (f"{heading.name}: {name}" for name in ours)
        trained = [figure for figure in below if any(entry.run for entry in figure.entries)]
        if heading.scores[0].startswith(PREFIX) and not all(figure.runs for figure in trained):
            yield f"{heading.name}: `phmrun bench run RUN` measures it, run by run"
        if paper and ours and heading.printed is not None:
            yield f"{heading.name}: paper: {heading.signature or heading.measured}"


def _verdict_notes(table: ResultTable, compared: Comparisons) -> Iterator[str]:
    """Yield the notes below verdicts: estimand, level, marks, and remarks on rows; none without comparisons."""
    if not compared:
        return
    baseline = "the baseline of the sweep"
    if all(entry.baseline is None for entry in table.entries()):
        baseline = "the dense cell"
    for settings in dict.fromkeys(comparison.settings for comparison in compared.values()):
        yield f"estimand: difference of mean scores from {baseline} over training seeds, test set fixed; {settings}"
    sizes = sorted({comparison.sharing for comparison in compared.values()})
    yield _shared_level([*map(str, sizes[:-1]), counted(sizes[-1], "row")])
    meanings = {
        "*": f"different from {baseline}",
        "≈": "not worse by more than the margin, or equivalent",
        "°": "untrained: no better than a trivial system",
    }
    marks = dict.fromkeys(MARKS[comparison.verdict] for comparison in compared.values())
    yield "; ".join([f"{mark} {meanings[mark]}" for mark in marks if mark] or ["no verdict but undecided"])
    for (row, column), comparison in sorted(compared.items()):
        name, judgement = f"{table.names[row]}{table.under(column)}", comparison.judgement
        if judgement.reason:
            yield f"{name}: {_reason(comparison)}"
        if judgement.over_items:
            low, high = judgement.over_items
            yield f"{name}: {low:+.2f} to {high:+.2f} over test items, these runs fixed"
        if judgement.needed and judgement.difference:
            yield f"{name}: about {judgement.needed} seeds of each are likely to decide"


def pair_notes(table: ResultTable, pairs: Sequence[RowComparison]) -> list[str]:
    """Return the notes below a table of pairs: what is estimated, the shared level, and the reasons of verdicts."""
    names = table.names
    settings = dict.fromkeys(pair.settings for pair in pairs)
    notes = [f"estimand: difference of mean scores over training seeds, test set fixed; {text}" for text in settings]
    notes.append(_shared_level(dict.fromkeys(counted(pair.sharing, "pair") for pair in pairs)))
    for pair in pairs:
        if pair.judgement.reason:
            (row, column), beside = pair.place, pair.beside or 0
            notes.append(f"{names[row]} beside {names[beside]}{table.under(column)}: {_reason(pair)}")
    return notes


def _shared_level(families: Iterable[str]) -> str:
    """Return the note on what intervals are simultaneous over."""
    over = " or ".join(families)
    return f"intervals and p are simultaneous over {over}, level {LEVEL:g}; detectable: with a power of 80 %"


def _reason(comparison: RowComparison) -> str:
    """Return a verdict's reason with the floor, if it is about one or outlying seeds, and Fisher's p-value."""
    reason, floor, p = comparison.judgement.reason, comparison.floor, comparison.judgement.p_collapsed
    named = f"{floor[0]}: {floor[1]:.2f}" if floor else ""
    named = f" ({named})" if named and "floor" in reason else f"; floor {named}" if named and p is not None else ""
    return f"{reason}{named}" + ("" if p is None else f"; Fisher's exact test p = {p:.2g}")


def _tuned(table: ResultTable) -> Iterator[str]:
    """Yield the tuned values of rows, if the table's only key is "row".

    Other tables have columns for them. The last note explains the edge mark, if any row has it.
    """
    for row, (name, *_) in enumerate(table.rows if table.keys == ("row",) else ()):
        entries = table.entries(row)
        tuned = {key: entry.at[key] for entry in entries for key in entry.at if "." in key}
        edges = {key for entry in entries for key in entry.at_edge}
        if tuned:
            values = ", ".join(f"{key} = {value}{f' {EDGE}' if key in edges else ''}" for key, value in tuned.items())
            yield f"{name}: tuned on validation: {values}"
    if any(entry.at_edge for entry in table.entries()):
        yield f"{EDGE}: the best value is the least or the greatest that was tried; a better one may lie beyond"
