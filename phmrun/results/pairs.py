"""Comparison of all rows of a table with one another, simultaneous over all pairs of a column.

Each pair is judged like a row and its baseline in :mod:`phmrun.results.comparison`, but the level is shared by all
k (k - 1) / 2 pairs of a column's k rows (Šidák). Imports no torch.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from phmrun.errors import counted
from phmrun.metric import lacks_direction
from phmrun.progress import progress
from phmrun.results.comparison import compare_cells, data_of
from phmrun.results.items import RunItems
from phmrun.results.layout import Laid
from phmrun.results.row_comparison import Place, RowComparison
from phmrun.results.table import Figure, ResultTable
from phmrun.results.verdicts import HEADINGS, facts, reason_sentence, verdict_cells
from phmrun.statistics.welch import LEVEL


@dataclass(frozen=True)
class Pair:
    """Two rows in one column, compared.

    Attributes:
        row: Row and column of the one.
        beside: Row and column of the other, an earlier row of the same column.
        comparison: Difference of the one from the other; ``rows`` is the number of pairs that share the level.
    """

    row: Place
    beside: Place
    comparison: RowComparison


def all_pairs(table: ResultTable, margin: float | None = None, rows: Collection[int] | None = None) -> list[Pair]:
    """Compare all rows of each column with one another.

    The score is the first of the column. Rows without runs are left out, as are pairs of different data, test items or
    lengths of training. Pairs are in the order of columns, then of their rows. Shows progress on stderr.

    Args:
        table: The table.
        margin: δ in units of the score; the metric's default if not given; 0 tests for differences only.
        rows: Indices of the rows to compare; all if not given.
    """
    reader, compared = RunItems(), list[Pair]()
    families = [list(_alike(table, column, rows)) for column in range(len(table.headings))]
    with progress("comparing all pairs", sum(map(len, families)), "pairs") as advance:
        for column, family in enumerate(families):
            score = table.headings[column].scores[0]
            for beside, row in family:
                cells = {row: _cell(table, row)}
                judged = compare_cells(cells, _cell(table, beside), score, margin, reader, family=len(family))
                compared += [Pair(row, beside, comparison) for comparison in judged.values()]
                advance(1)
    return compared


def _cell(table: ResultTable, place: Place) -> Figure:
    """Return the cell at a place."""
    row, column = place
    return table.figures[row][column]


def _alike(table: ResultTable, column: int, rows: Collection[int] | None) -> Iterator[tuple[Place, Place]]:
    """Yield the pairs of rows that a column can compare, the earlier row first; none without a known direction."""
    if lacks_direction(table.headings[column].scores[0]):
        return
    chosen = [row for row in range(len(table.rows)) if rows is None or row in rows]
    ended = [row for row in chosen if table.figures[row][column].has_ended]
    for early, late in combinations(ended, 2):
        before, after = table.figures[early][column], table.figures[late][column]
        if before.lengths == after.lengths and data_of(before) == data_of(after):
            yield (early, column), (late, column)


def pair_table(table: ResultTable, pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]], list[str]]:
    """Return headings, rows and notes of a table of pairs.

    A row has the names of both rows, the column's name if there are several columns, and the verdict's cells. Notes say
    what is estimated, how many pairs share the level, and the reasons of verdicts. Without pairs, all are empty.
    """
    if not pairs:
        return [], [], []
    several, names = len(table.headings) > 1, table.names
    columns = ["row", "beside", *(["score"] if several else []), *HEADINGS]
    lines, further = [], []
    for pair in pairs:
        (row, column), (other, _) = pair.row, pair.beside
        score = [table.headings[column].name] if several else []
        lines.append([names[row], names[other], *score, *verdict_cells(pair.comparison)])
        if reason := reason_sentence(pair.comparison):
            further.append(f"{', '.join([f'{names[row]} beside {names[other]}', *score])}: {reason}")
    settings = dict.fromkeys(pair.comparison.settings for pair in pairs)
    sizes = dict.fromkeys(counted(pair.comparison.rows, "pair") for pair in pairs)
    notes = [f"estimand: difference of mean scores over training seeds, test set fixed; {text}" for text in settings]
    notes.append(
        f"intervals and p are simultaneous over {' or '.join(sizes)}, level {LEVEL:g}; detectable: with a power of 80 %"
    )
    return columns, lines, notes + further


def with_pairs(laid: Laid, table: ResultTable, pairs: Sequence[Pair]) -> Laid:
    """Return a laid-out table whose verdicts are those of pairs; unchanged without pairs."""
    columns, lines, notes = pair_table(table, pairs)
    if not lines:
        return laid
    notes.append("--json has each pair's interval over test items, and the seeds that are likely to decide it")
    return replace(laid, verdict_columns=columns, verdict_rows=lines, notes=[*notes, *laid.notes])


def pair_facts(table: ResultTable, pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Return one object per pair, for JSON and spreadsheets.

    Keys: row, beside, column, score, and those of :func:`~phmrun.results.verdicts.facts`.
    """
    names = table.names
    return [
        {
            "row": names[pair.row[0]],
            "beside": names[pair.beside[0]],
            "column": table.headings[pair.row[1]].name,
            "score": table.headings[pair.row[1]].scores[0],
            **facts(pair.comparison),
        }
        for pair in pairs
    ]
