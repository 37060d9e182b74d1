"""One table in the format that the reader wants: on a terminal, in a README, in a paper, in a spreadsheet."""

import csv
import io
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from phmrun.cli import console
from phmrun.escaping import latex, spreadsheet
from phmrun.report.document import cell, markdown_table, right_aligned


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
    if style is Format.MD:
        return markdown_table(columns, rows)
    frame = "".join("r" if numbers else "l" for numbers in right_aligned(rows, len(columns)))
    head, *lines = [" & ".join(map(latex, line)) + r" \\" for line in (columns, *(map(cell, row) for row in rows))]
    below = "\n".join(lines)
    return f"\\begin{{tabular}}{{{frame}}}\n\\toprule\n{head}\n\\midrule\n{below}\n\\bottomrule\n\\end{{tabular}}\n"
