"""A table of results as lines of text: numbers with their spread, what the paper prints, marks and footnotes.

Imports no torch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from phmrun.config.experiment import unsaid_values
from phmrun.papers.results import Figure, Heading, Numbers, ResultTable, rounded
from phmrun.statistics.decision import LEVEL, Verdict
from phmrun.statistics.student import interval_of_mean, interval_of_one_run

if TYPE_CHECKING:
    from phmrun.papers.significance import Difference

REDUCED, MISSING = "‡", "–"
MARKS = {Verdict.DIFFERENT: "*", Verdict.NOT_WORSE: "≈", Verdict.UNDECIDED: ""}

Differences = Mapping[tuple[int, int], "Difference"]


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
                        **_decided(difference),
                        "signatures": list(numbers.signatures),
                        "runs": [entry.run.id for entry in figure.entries if entry.run],
                    }
                )
    return found


def _values(numbers: Numbers) -> dict[str, Any]:
    return {
        "mean": numbers.mean,
        "std": numbers.deviation,
        "values": list(numbers.values),
        "interval_of_mean": interval_of_mean(numbers.values),
        "interval_of_one_run": interval_of_one_run(numbers.values),
    }


def _decided(difference: "Difference | None") -> dict[str, Any]:
    """What a cell is to the dense one; every key, also where nothing was compared."""
    if difference is None:
        keys = ("verdict", "difference", "interval", "p", "p_not_worse", "margin", "detectable", "p_seeds")
        return dict.fromkeys(keys)
    decision, comparison, flip = difference.decision, difference.comparison, difference.flip
    return {
        "verdict": str(decision.verdict),
        "difference": comparison.value,
        "interval": list(comparison.interval()),
        "p": decision.p,
        "p_not_worse": decision.p_not_worse,
        "margin": decision.margin,
        "detectable": decision.detectable,
        "p_seeds": {"p": flip.p, "smallest": flip.smallest, "seeds": flip.n} if flip else None,
    }


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


def _different(difference: "Difference | None") -> str:
    return MARKS[difference.decision.verdict] if difference else ""


def _notes(table: ResultTable, differences: Differences, paper: bool) -> Iterable[str]:
    """What a reader must know of the marks, and the signatures of all scores."""
    if table.reduced:
        yield f"{REDUCED} reduced settings: {table.reduced}"
    unsaid = {key: text for line in table.figures for figure in line for key, text in _unsaid(figure)} if paper else {}
    if unsaid:
        yield "not said by the paper: " + "; ".join(f"{key} ({text})" for key, text in unsaid.items())
    if differences:
        yield (
            f"{MARKS[Verdict.DIFFERENT]} different from the dense cell, {MARKS[Verdict.NOT_WORSE]} not worse by more "
            f"than δ; neither: undecided (p < {LEVEL} after Holm's correction over the rows of a column)"
        )
    if any(numbers.deviation is not None for line in table.figures for figure in line for numbers in figure.numbers):
        yield "±: the deviation over seeds; --json has the 95 % intervals of the mean over seeds and of one further run"
    for (row, column), difference in sorted(differences.items()):
        under = f", {table.headings[column].name}" if len(table.headings) > 1 else ""
        yield f"{' '.join(filter(None, table.rows[row]))}{under}: {_sentence(difference)}"
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


def _sentence(difference: "Difference") -> str:
    """What is known of a cell, in one line."""
    decision, comparison, flip = difference.decision, difference.comparison, difference.flip
    low, high = comparison.interval()
    over = "seeds and test items" if comparison.items else "seeds"
    if decision.one_seed:
        over = "test items; of one seed, so nothing is known of training again"
    direction = "better" if decision.better else "worse"
    verdict = {
        Verdict.DIFFERENT: f"different, {direction}",
        Verdict.NOT_WORSE: f"not worse by more than {decision.margin:g}" if decision.margin else "",
        Verdict.UNDECIDED: f"undecided; a difference of {decision.detectable:.2f} would have been seen",
    }[decision.verdict]
    parts = [f"{verdict}: {comparison.value:+.2f} [{low:+.2f}, {high:+.2f}], p = {decision.p:.2g} over {over}"]
    if flip:
        parts.append(f"sign-flip over {flip.n} seeds p = {flip.p:.2g} (smallest possible {flip.smallest:.2g})")
    return "; ".join(parts)


def _signatures(heading: Heading, figures: Iterable[Figure], paper: bool) -> Iterable[str]:
    ours = dict.fromkeys(name for f in figures for numbers in f.numbers for name in numbers.signatures if name)
    yield from ours
    if paper and ours and heading.column:
        yield f"paper: {heading.column.signature or heading.column.metric}"
