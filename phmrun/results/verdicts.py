"""Verdicts in words, marks and numbers, for tables, pages and JSON.

Imports no torch.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from phmrun.errors import counted
from phmrun.results.row_comparison import RowComparison
from phmrun.results.table import ResultTable
from phmrun.statistics.verdict import Verdict
from phmrun.statistics.welch import LEVEL

MARKS = {
    Verdict.DIFFERENT: "*",
    Verdict.EQUIVALENT: "≈",
    Verdict.NOT_WORSE: "≈",
    Verdict.UNTRAINED: "°",
    Verdict.UNDECIDED: "",
}
HEADINGS = ("Δ", "95 % interval", "p", "detectable", "seeds", "verdict")
COLLAPSED = "collapsed: row, dense; p"
FACTS = (
    *("verdict", "better", "difference", "interval", "p", "margin", "detectable", "interval_over_items"),
    *("reason", "collapsed", "compared_seeds", "p_collapsed", "trained", "floor", "seeds_needed", "estimand"),
)
Comparisons = Mapping[tuple[int, int], RowComparison]
"""Comparisons with the dense cells, by row and column."""


def verdict_words(comparison: RowComparison) -> str:
    """Return a verdict in words.

    "different, better", "different, worse", "not worse by more than 0.5", "equivalent within 0.5", else its name.
    """
    judgement, margin = comparison.judgement, comparison.question.margin
    if judgement.verdict is Verdict.DIFFERENT:
        return f"different, {'better' if judgement.better else 'worse'}"
    if judgement.verdict is Verdict.NOT_WORSE:
        return f"not worse by more than {margin:g}"
    if judgement.verdict is Verdict.EQUIVALENT:
        return f"equivalent within {margin:g}"
    return str(judgement.verdict)


def verdict_cells(comparison: RowComparison) -> list[str]:
    """Return the six cells of a verdict, for the columns :data:`HEADINGS`.

    They are the difference, "low to high", p-value with two significant digits, detectable difference, seeds ("5, 4"
    for row and dense if they differ), and the verdict in words. Other numbers have two decimals. Without a difference,
    all cells except the last are empty.
    """
    judgement = comparison.judgement
    shown = judgement.difference
    words = verdict_words(comparison)
    if shown is None:
        return ["", "", "", "", "", words]
    interval = f"{shown.low:+.2f} to {shown.high:+.2f}"
    seeds = f"{shown.seeds[0]}" if shown.seeds[0] == shown.seeds[1] else f"{shown.seeds[0]}, {shown.seeds[1]}"
    return [f"{shown.value:+.2f}", interval, f"{shown.p:.2g}", f"{shown.detectable:.2f}", seeds, words]


def collapsed_cell(comparison: RowComparison) -> str:
    """Return the shares of collapsed seeds of row and reference.

    Fisher's p-value follows them: "2 of 6, 0 of 6; 0.45". Without collapsed seeds, the p-value is left out.
    """
    judgement = comparison.judgement
    shares = (f"{lost} of {all_of}" for lost, all_of in zip(judgement.collapsed, judgement.seeds, strict=True))
    p = "" if judgement.p_collapsed is None else f"; {judgement.p_collapsed:.2g}"
    return ", ".join(shares) + p


def sentence(comparison: RowComparison) -> str:
    """Return a comparison in one line.

    It has the verdict, the difference with its interval, and the reason, if any.
    """
    judgement = comparison.judgement
    shown = judgement.difference
    parts = [verdict_words(comparison)]
    if shown is not None:
        parts.append(f"{shown.value:+.2f} [{shown.low:+.2f}, {shown.high:+.2f}]")
    if judgement.reason:
        parts.append(judgement.reason)
    return "; ".join(parts)


def notes(table: ResultTable, comparisons: Comparisons, names: Sequence[str]) -> list[str]:
    """Return the notes below verdicts.

    They are estimand, level, marks, and remarks on rows. ``names`` are the names of the table's rows, in its order. The
    result is empty without comparisons.
    """
    if not comparisons:
        return []
    entries = (entry for line in table.figures for figure in line for entry in figure.entries)
    baseline = "the dense cell" if all(entry.baseline is None for entry in entries) else "the baseline of the sweep"
    lines = [
        f"estimand: difference of mean scores from {baseline} over training seeds, test set fixed; {settings}"
        for settings in dict.fromkeys(comparison.settings for comparison in comparisons.values())
    ]
    rows = sorted({comparison.rows for comparison in comparisons.values()})
    lines.append(
        f"intervals and p are simultaneous over {' or '.join([*map(str, rows[:-1]), counted(rows[-1], 'row')])}"
        + f", level {LEVEL:g}; detectable: with a power of 80 %"
    )
    meanings = {
        "*": f"different from {baseline}",
        "≈": "not worse by more than the margin, or equivalent",
        "°": "untrained: no better than a trivial system",
    }
    marks = dict.fromkeys(MARKS[comparison.verdict] for comparison in comparisons.values())
    lines.append("; ".join([f"{mark} {meanings[mark]}" for mark in marks if mark] or ["no verdict but undecided"]))
    for (row, column), comparison in sorted(comparisons.items()):
        under = f", {table.headings[column].name}" if len(table.headings) > 1 else ""
        lines += [f"{names[row]}{under}: {line}" for line in _remarks(comparison)]
    return lines


def _remarks(comparison: RowComparison) -> list[str]:
    """Return further facts of a row, if any.

    In this order: reason, interval over items, and seeds needed.
    """
    judgement, lines = comparison.judgement, list[str]()
    if judgement.reason:
        lines.append(reason_sentence(comparison))
    if judgement.over_items:
        low, high = judgement.over_items
        lines.append(f"{low:+.2f} to {high:+.2f} over test items, these runs fixed")
    if judgement.needed and judgement.difference:
        lines.append(f"about {judgement.needed} seeds of each are likely to decide")
    return lines


def reason_sentence(comparison: RowComparison) -> str:
    """Return a verdict's reason with the floor, if it is about one, and Fisher's p-value; empty without a reason."""
    reason, floor, p = comparison.judgement.reason, comparison.floor, comparison.judgement.p_collapsed
    named = f" ({floor[0]}: {floor[1]:.2f})" if floor and "floor" in reason else ""
    exact = "" if p is None else f"; Fisher's exact test p = {p:.2g}"
    return f"{reason}{named}{exact}" if reason else ""


def facts(comparison: RowComparison | None) -> dict[str, Any]:
    """Return a comparison for JSON.

    Keys: verdict, better, difference, interval, p, margin, detectable, interval_over_items, reason, collapsed,
    compared_seeds, p_collapsed, trained, floor, seeds_needed, estimand. Each is ``None`` without a comparison.
    Intervals and pairs (row, dense) are lists.
    """
    if comparison is None:
        return dict.fromkeys(FACTS)
    judgement, question = comparison.judgement, comparison.question
    shown = judgement.difference
    return {
        "verdict": str(judgement.verdict),
        "better": judgement.better,
        "difference": shown.value if shown else None,
        "interval": [shown.low, shown.high] if shown else None,
        "p": shown.p if shown else None,
        "margin": question.margin,
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
