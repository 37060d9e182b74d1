"""A table of results as lines of text: numbers with their spread, what the paper prints, marks and footnotes.

Imports no torch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from phmrun.config.experiment import unsaid_values
from phmrun.metrics.significance import Difference
from phmrun.papers.results import Figure, Heading, Numbers, ResultTable, rounded

REDUCED, DIFFERENT, MISSING = "‡", "*", "–"
LEVEL = 0.05
"""A p-value below it marks a cell."""

Differences = Mapping[tuple[int, int], Difference]


@dataclass(frozen=True)
class Laid:
    """A table of texts.

    Attributes:
        title: What it shows.
        columns: Headings.
        rows: Cells; counts are numbers.
        notes: What stands below it.
    """

    title: str
    columns: list[str]
    rows: list[list[Any]]
    notes: list[str]


def lay_out(table: ResultTable, how: str, differences: Differences, *, paper: bool) -> Laid:
    """The table for readers.

    Args:
        table: The results.
        how: How seeds are put together: "mean±std", "mean", "median", "best", "worst" or "all".
        differences: From the dense cells, by row and column.
        paper: Whether the published values stand beside ours.
    """
    apart = any(len(counts) > 1 for counts in table.parameters)  # the columns are of networks of different sizes
    columns, rows = [*table.keys, *(() if apart else ("parameters",))], []
    for heading in table.headings:
        columns += [heading.name, *(("parameters",) if apart else ()), *(("paper", "Δ") if paper else ())]
    columns.append("seeds")
    for number, labels in enumerate(table.rows):
        line: list[Any] = [*labels, *(() if apart else (_parameters(table.parameters[number]),))]
        for place, figure in enumerate(table.figures[number]):
            difference = differences.get((number, place))
            mark = (REDUCED if table.reduced and figure.runs else "") + _different(difference)
            line.append(_ours(figure, how) + mark if figure.runs else MISSING)
            line += [_parameters(figure.parameters)] if apart else []
            if paper:
                line += [figure.printed or MISSING, _delta(figure)]
        rows.append([*line, _seeds(table.figures[number])])
    return Laid(table.title, columns, rows, list(_notes(table, differences, paper)))


def plain_rows(table: ResultTable, differences: Differences) -> list[dict[str, Any]]:
    """One object per cell, with every number as it is: for JSON and for spreadsheets."""
    found = []
    for number, labels in enumerate(table.rows):
        for place, (heading, figure) in enumerate(zip(table.headings, table.figures[number], strict=True)):
            for score, numbers in zip(heading.scores, figure.numbers, strict=True):
                difference = differences.get((number, place))
                found.append(
                    {
                        **dict(zip(table.keys, labels, strict=True)),
                        "column": heading.name,
                        "score": score,
                        **_values(numbers),
                        "seeds": len(numbers.values),
                        "planned": len(figure.entries),
                        "parameters": table.parameters[number][0] if table.parameters[number] else None,
                        "published": numbers.published,
                        "printed": figure.printed,
                        "delta": numbers.delta,
                        "comparable": figure.comparable,
                        "reduced": table.reduced or None,
                        "p": difference.p if difference else None,
                        "signatures": list(numbers.signatures),
                        "runs": [entry.run.id for entry in figure.entries if entry.run],
                    }
                )
    return found


def _values(numbers: Numbers) -> dict[str, Any]:
    return {"mean": numbers.mean, "std": numbers.deviation, "values": list(numbers.values)}


def _ours(figure: Figure, how: str) -> str:
    """The numbers of a cell, each with its spread."""
    return " / ".join(_one(numbers, how) for numbers in figure.numbers)


def _one(numbers: Numbers, how: str) -> str:
    if how == "all":
        return " ".join(rounded(value) for value in numbers.values)
    if how == "mean±std":
        spread = f" ± {rounded(numbers.deviation)}" if numbers.deviation is not None else ""
        return f"{rounded(numbers.mean or 0.0)}{spread}"
    value = numbers.aggregate(how)
    return MISSING if value is None else rounded(value)


def _delta(figure: Figure) -> str:
    """Ours minus theirs; in brackets where the two were not measured alike."""
    deltas = [numbers.delta for numbers in figure.numbers]
    if not any(delta is not None for delta in deltas):
        return MISSING
    text = " / ".join(MISSING if delta is None else f"{delta:+.2f}" for delta in deltas)
    return text if figure.comparable else f"({text})"


def _parameters(counts: tuple[int, ...]) -> Any:
    if not counts:
        return None
    return counts[0] if len(counts) == 1 else f"{counts[0]:,}–{counts[-1]:,}"


def _seeds(figures: Iterable[Figure]) -> str:
    """How many seeds the cells of a row have, of how many."""
    counts = sorted({(figure.runs, len(figure.entries)) for figure in figures if figure.entries})
    return ", ".join(f"{runs}" if runs == planned else f"{runs} of {planned}" for runs, planned in counts) or MISSING


def _different(difference: Difference | None) -> str:
    return DIFFERENT if difference and difference.p < LEVEL else ""


def _notes(table: ResultTable, differences: Differences, paper: bool) -> Iterable[str]:
    """What a reader must know of the marks, and the signatures of all scores."""
    if table.reduced:
        yield f"{REDUCED} reduced settings: {table.reduced}"
    unsaid = {key: text for line in table.figures for figure in line for key, text in _unsaid(figure)} if paper else {}
    if unsaid:
        yield "not said by the paper: " + "; ".join(f"{key} ({text})" for key, text in unsaid.items())
    if differences:
        yield f"{DIFFERENT} differs from the dense cell (p < {LEVEL}, paired bootstrap over the test items)"
    figures = [figure for line in table.figures for figure in line if figure.runs]
    if paper and any(figure.printed and not figure.comparable for figure in figures):
        yield "(Δ): not measured alike, or the paper does not say how; see the signatures"
    for place, heading in enumerate(table.headings):
        for said in _signatures(heading, [line[place] for line in table.figures], paper):
            yield f"{heading.name}: {said}"


def _unsaid(figure: Figure) -> Iterable[tuple[str, str]]:
    """What the settings of a cell say and its paper does not: the key with its value, and where that is from."""
    for entry in figure.entries:
        for key, (value, text) in unsaid_values(entry.config).items():
            yield key if isinstance(value, Mapping) else f"{key} = {value}", text


def _signatures(heading: Heading, figures: Iterable[Figure], paper: bool) -> Iterable[str]:
    ours = dict.fromkeys(name for f in figures for numbers in f.numbers for name in numbers.signatures if name)
    yield from ours
    if paper and ours and heading.column:
        yield f"paper: {heading.column.signature or heading.column.metric}"
