"""One table in the format that the reader wants: on a terminal, in a README, in a paper, in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from phmrun.cli import console
from phmrun.escaping import latex, markdown, spreadsheet
from phmrun.ledger.card import is_number, shared


class Format(StrEnum):
    """How a table is written."""

    TEXT = "text"
    MD = "md"
    LATEX = "latex"
    CSV = "csv"


def print_formatted(columns: Sequence[str], rows: Iterable[Sequence[Any]], style: Format) -> None:
    """A table on standard output; ``text`` is :func:`console.print_table`."""
    filled = list(rows)
    if style is Format.TEXT:
        console.print_table(columns, filled)
    else:
        print(formatted(columns, filled, style), end="", flush=True)


def formatted(columns: Sequence[str], rows: Sequence[Sequence[Any]], style: Format) -> str:
    """The table as Markdown, as LaTeX (booktabs) or as comma-separated values, whose numbers are bare.

    The first two are for readers: paths below the data directory or the user's home are shortened.
    """
    if style is Format.CSV:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(spreadsheet, columns))
        writer.writerows([["" if value is None else spreadsheet(value) for value in row] for row in rows])
        return text.getvalue()
    cells = [[shared(_text(value)) for value in row] for row in rows]
    right = [any(is_number(row[index]) for row in rows) for index in range(len(columns))]
    if style is Format.MD:
        ruler = ["---:" if numbers else ":---" for numbers in right]
        heads, *body = [[markdown(cell) for cell in row] for row in (columns, *cells)]
        return "".join(f"| {' | '.join(line)} |\n" for line in (heads, ruler, *body))
    lines = [" & ".join(map(latex, line)) + r" \\" for line in (columns, *cells)]
    frame = "".join("r" if numbers else "l" for numbers in right)
    below = "\n".join(lines[1:])
    return f"\\begin{{tabular}}{{{frame}}}\n\\toprule\n{lines[0]}\n\\midrule\n{below}\n\\bottomrule\n\\end{{tabular}}\n"


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
