"""Table of results as texts with notes, and as plain values.

Imports no torch.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from phmrun.config.experiment import provenance_values
from phmrun.config.provenance import grouped, kind_of
from phmrun.errors import counted
from phmrun.ledger.scores import PREFIX
from phmrun.metric import metric_of
from phmrun.results.baselines import baseline_rows, has_diverged
from phmrun.results.comparison import Comparisons, RowComparison, withheld
from phmrun.results.costs import COSTS, cost_of, cost_texts, has_frozen, meanings
from phmrun.results.table import MISSING, REDUCED, Figure, ResultTable, rounded
from phmrun.statistics.verdict import Judgement, Question, Verdict
from phmrun.statistics.welch import LEVEL, interval_of_mean, interval_words

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
Grid = tuple[list[str], list[list[Any]]]
"""Headings and rows of a printed table; cells are texts, counts are numbers."""


def lay_out(
    table: ResultTable,
    compared: Comparisons,
    pairs: Sequence[RowComparison] = (),
    *,
    paper: bool = False,
    costs: Sequence[str] = (),
) -> tuple[list[Grid], list[str]]:
    """Return the tables for readers, and the notes below them.

    The first table has the scores; the second, if there are comparisons, their verdicts. Costs of a row whose networks
    differ are joined by " / ". Baselines are the last rows. Marks: ‡ reduced settings, † unfinished runs, "(edge)"
    tuned values at an edge, and those of verdicts.

    Args:
        table: The results.
        compared: Comparisons with the dense cells, by row and column.
        pairs: Comparisons of all rows with one another, which take the place of verdicts.
        paper: True to show the published values beside ours.
        costs: Names of :data:`phmrun.results.costs.COSTS` to show beside the parameters; first comes ``trained`` if a
            run has frozen ones.
    """
    frozen = has_frozen(next(iter(table.entries(row))) for row in range(len(table.rows)) if table.entries(row))
    shown = [name for name in dict.fromkeys((*["trained"] * frozen, *costs)) if name != "parameters"]
    columns = [*table.keys, "parameters", *(COSTS[name].heading for name in shown)]
    for heading in table.headings:
        columns += [heading.name, *(("paper", "Δ") if paper else ())]
    rows = [[*_labels(table, row), *_sizes(table, row, shown)] for row in range(len(table.rows))]
    for row, (line, figures) in enumerate(zip(rows, table.figures, strict=True)):
        for column, figure in enumerate(figures):
            line.append(_cell(table, figure, compared.get((row, column))))
            line += [figure.printed or MISSING, _delta(figure)] if paper else []
        # seeds done and planned in the cells of a row
        counts = sorted({(len(figure.values), len(figure.entries)) for figure in figures if figure.entries})
        seeds = ", ".join(f"{runs}" if runs == planned else f"{runs} of {planned}" for runs, planned in counts)
        line.append(seeds or MISSING)
    for baseline in baseline_rows(table):
        line = [baseline.label, *[""] * len(columns)]
        for heading, value in zip(table.headings, baseline.values, strict=True):
            line[columns.index(heading.name, len(table.keys))] = MISSING if value is None else rounded(value)
        rows.append(line)
    comparisons = pairs or [compared[place] for place in sorted(compared)]
    notes = [*_notes(table, compared, paper), *meanings(table.entries(), shown)]
    if pairs:
        json = "--json has each pair's interval over test items, and the seeds that are likely to decide it"
        notes = [*verdict_notes(table, pairs), json, *notes]
    scores: Grid = [*columns, "seeds"], rows
    return [scores, *([verdict_table(table, comparisons)] if comparisons else [])], notes


def _labels(table: ResultTable, row: int) -> list[str]:
    """Return the labels of a row, with a mark at tuned values at an edge; values without a column mark the first."""
    edges = {key for entry in table.entries(row) for key in entry.at_edge}
    marked = edges and (edges & {*table.keys} or {table.keys[0]})
    labels = zip(table.keys, table.rows[row], strict=True)
    return [f"{label} {EDGE}" if key in marked else label for key, label in labels]


def _sizes(table: ResultTable, row: int, costs: Sequence[str]) -> list[Any]:
    """Return the parameters and costs of a row; those of its cells joined by " / " if its networks differ."""
    counts = table.parameters(row)
    if len(counts) < 2:
        return [next(iter(counts), None), *cost_texts(table.entries(row), costs)]
    by_cell = (cost_texts(figure.entries, ["parameters", *costs]) for figure in table.figures[row])
    return [" / ".join(dict.fromkeys(texts)) for texts in zip(*by_cell, strict=True)]


def _cell(table: ResultTable, figure: Figure, comparison: RowComparison | None) -> str:
    """Return a cell's score with its marks; "–" without runs."""
    if not figure.values:
        return MISSING
    mark = (REDUCED if table.reduced else "") + (UNFINISHED if any(e.unfinished for e in figure.entries) else "")
    return figure.text + mark + (MARKS[comparison.verdict] if comparison else "")


def _delta(figure: Figure) -> str:
    """Return our mean minus the published value, with sign: "+0.31".

    "–" if either is missing. In round brackets if the two are not comparable.
    """
    if figure.delta is None:
        return MISSING
    return f"{figure.delta:+.2f}" if figure.comparable else f"({figure.delta:+.2f})"


def verdict_table(table: ResultTable, comparisons: Sequence[RowComparison]) -> Grid:
    """Return the table of the verdicts of at least one comparison.

    A row has its name, that of the row beside it for pairs, the column's name if there are several columns, and the
    verdict's cells. Rows beside dense also have the shares of collapsed seeds if any comparison has some.
    """
    is_pair, several = comparisons[0].beside is not None, len(table.headings) > 1
    collapsed = not is_pair and any(any(comparison.judgement.collapsed) for comparison in comparisons)
    columns = ["row", *(["beside"] if is_pair else []), *(["score"] if several else []), *HEADINGS]
    rows = []
    for comparison in comparisons:
        row, column = comparison.place
        line = [table.names[row], *([] if comparison.beside is None else [table.names[comparison.beside]])]
        line += [*([table.headings[column].name] if several else []), *_verdict_cells(comparison)]
        rows.append([*line, *([_collapsed_cell(comparison.judgement)] if collapsed else [])])
    return [*columns, *([COLLAPSED] if collapsed else [])], rows


def _verdict_cells(comparison: RowComparison) -> list[str]:
    """Return the six cells of a verdict, for the columns :data:`HEADINGS`.

    They are the difference, its interval, p-value with two significant digits, detectable difference, seeds ("5, 4"
    for row and dense if they differ), and the verdict in words. Other numbers have two decimals. Without a difference,
    all cells except the last are empty.
    """
    shown, words = comparison.judgement.difference, comparison.words
    if shown is None:
        return [*[""] * 5, words]
    seeds = ", ".join(map(str, dict.fromkeys(shown.seeds)))
    interval = interval_words(shown.low, shown.high)
    return [f"{shown.value:+.2f}", interval, f"{shown.p:.2g}", f"{shown.detectable:.2f}", seeds, words]


def _collapsed_cell(judgement: Judgement) -> str:
    """Return the shares of collapsed seeds of row and reference, and Fisher's p-value: "2 of 6, 0 of 6; 0.45"."""
    shares = (f"{lost} of {all_of}" for lost, all_of in zip(judgement.collapsed, judgement.seeds, strict=True))
    return ", ".join(shares) + ("" if judgement.p_collapsed is None else f"; {judgement.p_collapsed:.2g}")


def plain_rows(table: ResultTable, compared: Comparisons, costs: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return one object per cell, for JSON and spreadsheets.

    They are in the order of rows, then columns. Keys: those of the table's rows; ``costs`` by name; column, score,
    mean, std, values, interval_of_mean, seeds, planned, parameters, multiplications, training_seconds,
    seconds_per_step, at_edge, published, printed, delta, comparable, reduced; those of :func:`facts`; not_compared,
    states, steps, signatures, runs. Numbers are not rounded; missing ones are ``None``. The interval is of 95 %.
    ``parameters`` is the least count of the cell's networks.
    """
    cells, reasons = [], withheld(table)
    uncompared = dict.fromkeys(facts(RowComparison(Judgement(Verdict.UNDECIDED), Question())))
    for (row, column), figure in table.cells.items():
        comparison, runs = compared.get((row, column)), [entry.run for entry in figure.entries if entry.run]
        cells.append(
            {
                **dict(zip(table.keys, table.rows[row], strict=True)),
                **{name: cost_of(figure.entries, name) for name in costs},
                "column": table.headings[column].name,
                "score": figure.score,
                "mean": figure.mean,
                "std": figure.deviation,
                "values": list(figure.values),
                "interval_of_mean": metric_of(figure.score).bounded(interval_of_mean(figure.values)),
                "seeds": len(figure.values),
                "planned": len(figure.entries),
                "parameters": next(iter(table.parameters(row, column)), None),
                "multiplications": cost_of(figure.entries, "multiplications"),
                "training_seconds": cost_of(figure.entries, "training-time"),
                "seconds_per_step": cost_of(figure.entries, "step-time"),
                "at_edge": sorted({key for entry in figure.entries for key in entry.at_edge}),
                "published": figure.published,
                "printed": figure.printed,
                "delta": figure.delta,
                "comparable": figure.comparable,
                "reduced": table.reduced or None,
                **(facts(comparison) if comparison else uncompared),
                "not_compared": reasons.get((row, column)),
                "states": [run.state for run in runs],
                "steps": [run.status.step for run in runs if run.status],
                "signatures": list(figure.signatures),
                "runs": [run.id for run in runs],
            }
        )
    return cells


def facts(comparison: RowComparison) -> dict[str, Any]:
    """Return a comparison for JSON.

    Keys: those of :meth:`~phmrun.statistics.verdict.Judgement.as_dict`, margin, compared_seeds (row, dense), floor,
    seeds_needed, estimand.
    """
    judgement = comparison.judgement
    return {
        **judgement.as_dict(),
        "margin": comparison.question.margin,
        "compared_seeds": list((judgement.difference or judgement).seeds),
        "floor": list(comparison.floor) if comparison.floor else None,
        "seeds_needed": judgement.needed,
        "estimand": f"difference of means over seeds, test set fixed; {comparison.settings}",
    }


def pair_facts(table: ResultTable, pairs: Sequence[RowComparison]) -> list[dict[str, Any]]:
    """Return one object per pair, for JSON and spreadsheets: row, beside, column, score, and those of :func:`facts`."""
    return [
        {
            "row": table.names[pair.place[0]],
            "beside": table.names[pair.beside or 0],
            "column": table.headings[pair.place[1]].name,
            "score": table.headings[pair.place[1]].score,
            **facts(pair),
        }
        for pair in pairs
    ]


def _notes(table: ResultTable, compared: Comparisons, paper: bool) -> Iterator[str]:
    """Yield the notes below a table, each only if it applies.

    In this order: reduced settings, unfinished runs, settings that the paper does not state (only with ``paper``),
    verdicts, edges of tuning, the deviation, cells not compared, diverged seeds, incomparable scores, and signatures.
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
    yield from verdict_notes(table, [compared[place] for place in sorted(compared)])
    if any(entry.at_edge for entry in entries):
        yield f"{EDGE}: the best value is the least or the greatest that was tried; a better one may lie beyond"
    figures = table.cells.values()
    if any(figure.deviation is not None for figure in figures):
        chose = any(comparison.dropped for comparison in compared.values())
        all_of = ", those that chose settings among them: differences leave these out" if chose else ""
        yield f"±: the deviation over seeds{all_of}; --json has the 95 % intervals of the mean over seeds"
    for (row, column), text in sorted(withheld(table).items()):
        yield f"{table.names[row]}{table.under(column)}: {text}"
    scores = [heading.score for heading in table.headings]
    for row, name in enumerate(table.names):  # past the divergence floor, or with a loss that is no number
        its = table.entries(row)
        if count := sum(entry.diverged or any(has_diverged(entry.run, score) for score in scores) for entry in its):
            yield f"{name}: {count} of {len(its)} seeds diverged"
    if paper and any(figure.printed and not figure.comparable for figure in figures if figure.values):
        yield "(Δ): different evaluation settings, or the paper does not state them; see the signatures"
    for column, heading in enumerate(table.headings):
        below = [line[column] for line in table.figures]
        ours = dict.fromkeys(name for figure in below for name in figure.signatures if name)
        yield from (f"{heading.name}: {name}" for name in ours)
        trained = [figure for figure in below if any(entry.run for entry in figure.entries)]
        if heading.score.startswith(PREFIX) and not all(figure.values for figure in trained):
            yield f"{heading.name}: `phmrun bench run RUN` measures it, run by run"
        if paper and ours and heading.printed is not None:
            yield f"{heading.name}: paper: {heading.signature or heading.measured}"


def verdict_notes(table: ResultTable, comparisons: Sequence[RowComparison]) -> Iterator[str]:
    """Yield the notes below verdicts: seeds that it takes, estimand, level, marks, remarks on rows; else none.

    Pairs have no marks, and their reasons are the only remarks.
    """
    if not comparisons:
        return
    is_pair = comparisons[0].beside is not None
    named = all(entry.baseline is None for entry in table.entries())
    baseline = "the dense cell" if named else "the baseline of the sweep"
    for comparison in [] if is_pair else comparisons:
        if comparison.judgement.needed and comparison.judgement.difference:
            name = f"{table.names[comparison.place[0]]}{table.under(comparison.place[1])}"
            yield f"{name}: about {comparison.judgement.needed} seeds of each are likely to decide"
    references = {comparison.place[0]: comparison.baseline for comparison in comparisons}
    if len(set(references.values())) > 1:
        yield from (f"{table.names[row]}: beside {table.names[other]}" for row, other in references.items())
    for settings in dict.fromkeys(comparison.settings for comparison in comparisons):
        beside = "" if is_pair else f" from {baseline}"
        yield f"estimand: difference of mean scores{beside} over training seeds, test set fixed; {settings}"
    *sizes, last = sorted({comparison.sharing for comparison in comparisons})
    over = " or ".join([*map(str, sizes), counted(last, "pair" if is_pair else "row")])
    yield f"intervals and p are simultaneous over {over}, level {LEVEL:g}; detectable: with a power of 80 %"
    if not is_pair:
        meanings = {
            "*": f"different from {baseline}",
            "≈": "not worse by more than the margin, or equivalent",
            "°": "untrained: no better than a trivial system",
        }
        marks = dict.fromkeys(MARKS[comparison.verdict] for comparison in comparisons)
        yield "; ".join([f"{mark} {meanings[mark]}" for mark in marks if mark] or ["no verdict but undecided"])
    for comparison in comparisons:
        row, column = comparison.place
        beside = f" beside {table.names[comparison.beside]}" if comparison.beside is not None else ""
        name, judgement = f"{table.names[row]}{beside}{table.under(column)}", comparison.judgement
        if judgement.reason:
            yield f"{name}: {_reason(comparison)}"
        if judgement.over_items and not is_pair:
            low, high = judgement.over_items
            yield f"{name}: {low:+.2f} to {high:+.2f} over test items, these runs fixed"


def _reason(comparison: RowComparison) -> str:
    """Return a verdict's reason with the floor, if it is about one or outlying seeds, and Fisher's p-value."""
    reason, floor, p = comparison.judgement.reason, comparison.floor, comparison.judgement.p_collapsed
    named = f"{floor[0]}: {floor[1]:.2f}" if floor else ""
    named = f" ({named})" if named and "floor" in reason else f"; floor {named}" if named and p is not None else ""
    return f"{reason}{named}" + ("" if p is None else f"; Fisher's exact test p = {p:.2g}")
