"""Tables for readers and programs: Markdown, LaTeX, HTML, CSV. Paths in the user's home are shortened for readers."""

import csv
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from phmrun.escaping import latex, markdown, printable, spreadsheet
from phmrun.ledger.card import is_number, shared
from phmrun.ledger.wording import head
from phmrun.results.layout import Laid


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
    above, *lines = [" & ".join(map(latex, line)) + r" \\" for line in (columns, *(map(cell, row) for row in rows))]
    below = "\n".join(lines)
    return f"\\begin{{tabular}}{{{frame}}}\n\\toprule\n{above}\n\\midrule\n{below}\n\\bottomrule\n\\end{{tabular}}\n"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table in HTML; numbers have the class ``number``."""
    lines = []
    for row in rows:
        kinds = [' class="number"' if is_number(value) else "" for value in row]
        cells = [f"<td{kind}>{escaped(cell(value))}</td>" for kind, value in zip(kinds, row, strict=True)]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    body = "\n".join(lines)
    names = "".join(f"<th>{escaped(name)}</th>" for name in columns)
    return f"<table>\n<thead><tr>{names}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def csv_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Table as comma-separated values, with bare numbers and empty cells for missing ones."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(spreadsheet, columns))
    writer.writerows([["" if value is None else spreadsheet(value) for value in row] for row in rows])
    return text.getvalue()


def markdown_page(laid: Laid) -> str:
    """Title, table and notes in Markdown."""
    title = f"**{markdown(laid.title)}**\n\n" if laid.title else ""
    notes = "".join(f"\n{markdown(note)}\n" for note in laid.notes)
    return f"{title}{markdown_table(laid.columns, laid.rows)}{_verdicts(laid, markdown_table)}{notes}"


def latex_page(laid: Laid) -> str:
    """Table and notes in LaTeX, the title in a comment."""
    title = f"% {laid.title}; the package booktabs draws the rules\n" if laid.title else ""
    # Signatures have no spaces at which LaTeX could break the line.
    breakable = (latex(note).replace("$|$", "$|$\\allowbreak{}") for note in laid.notes)
    notes = "".join(f"\\par{{\\footnotesize {note}}}\n" for note in breakable)
    verdicts = _verdicts(laid, lambda columns, rows: latex_table([*map(head, columns)], rows))
    return f"{title}{latex_table([*map(head, laid.columns)], laid.rows)}{verdicts}{notes}"


def html_page(laid: Laid) -> str:
    """Title, table and notes in HTML."""
    title = f"<p><em>{escaped(laid.title)}</em></p>\n" if laid.title else ""
    notes = "".join(f'\n<p class="note">{escaped(note)}</p>' for note in laid.notes)
    return f"{title}{html_table(laid.columns, laid.rows)}{_verdicts(laid, html_table)}{notes}"


def _verdicts(laid: Laid, write: Callable[[Sequence[str], Sequence[Sequence[Any]]], str]) -> str:
    """Table of verdicts below the scores; empty without comparisons."""
    return "\n" + write(laid.verdict_columns, laid.verdict_rows) if laid.verdict_rows else ""


def csv_cells(cells: Sequence[Mapping[str, Any]]) -> str:
    """Cells of a table as comma-separated values, a line each.

    An interval has a column for each end, an object one for each key; values of several seeds stand in one column.
    """
    lines = [_flat(cell) for cell in cells]
    columns = list(dict.fromkeys(name for line in lines for name in line))
    return csv_table(columns, [[line.get(name) for name in columns] for line in lines])


def _flat(cell: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in cell.items():
        if name.startswith("interval"):
            low, high = value or (None, None)
            values |= {f"{name}_low": low, f"{name}_high": high}
        elif isinstance(value, Mapping):
            values |= {f"{name}_{key}": part for key, part in value.items()}
        else:
            values[name] = " ".join(map(str, value)) if isinstance(value, list) else value
    return {name: " ".join(map(str, value)) if isinstance(value, list) else value for name, value in values.items()}


def escaped(text: str) -> str:
    """Text that is safe in HTML."""
    return html.escape(printable(shared(text)))


def _right_aligned(rows: Sequence[Sequence[Any]], columns: int) -> list[bool]:
    """True for each column that holds numbers."""
    return [any(is_number(row[place]) for row in rows) for place in range(columns)]
