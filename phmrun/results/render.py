"""Tables for readers and programs: Markdown, LaTeX, HTML, CSV. Paths in the user's home are shortened for readers."""

import csv
import html
import io
from collections.abc import Sequence
from typing import Any

from phmrun.escaping import latex, markdown, printable, spreadsheet
from phmrun.ledger.card import is_number, shared


def cell(value: Any) -> str:
    """Text of a value in a table for readers."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shared(f"{value:,}" if isinstance(value, int | float) else str(value))


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table in Markdown; columns of numbers are aligned right."""
    ruler = ["---:" if numbers else ":---" for numbers in _right_aligned(rows, len(columns))]
    lines = [[*map(markdown, columns)], ruler, *([markdown(cell(value)) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table in LaTeX, with the rules of booktabs."""
    frame = "".join("r" if numbers else "l" for numbers in _right_aligned(rows, len(columns)))
    head, *lines = [" & ".join(map(latex, line)) + r" \\" for line in (columns, *(map(cell, row) for row in rows))]
    below = "\n".join(lines)
    return f"\\begin{{tabular}}{{{frame}}}\n\\toprule\n{head}\n\\midrule\n{below}\n\\bottomrule\n\\end{{tabular}}\n"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table in HTML; numbers have the class ``number``."""
    lines = []
    for row in rows:
        kinds = [' class="number"' if is_number(value) else "" for value in row]
        cells = [f"<td{kind}>{escaped(cell(value))}</td>" for kind, value in zip(kinds, row, strict=True)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(lines)
    head = "".join(f"<th>{escaped(name)}</th>" for name in columns)
    return f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def csv_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table as comma-separated values, with bare numbers and empty cells for missing ones."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(spreadsheet, columns))
    writer.writerows([["" if value is None else spreadsheet(value) for value in row] for row in rows])
    return text.getvalue()


def escaped(text: str) -> str:
    """Text that is safe in HTML."""
    return html.escape(printable(shared(text)))


def _right_aligned(rows: Sequence[Sequence[Any]], columns: int) -> list[bool]:
    """True for each column that holds numbers."""
    return [any(is_number(row[place]) for row in rows) for place in range(columns)]
