"""Tables as Markdown, LaTeX, HTML and comma-separated values. Paths in the user's home are shortened except in CSV."""

import csv
import html
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phmrun.escaping import latex, markdown, printable, spreadsheet
from phmrun.ledger.wording import head, is_number, shared
from phmrun.results.layout import Grid

_MINUS = re.compile(r"(?<![\w$.)-])-(?=\d)")
"""Minus sign of a number in text."""


def cell(value: Any) -> str:
    """Return the text of a value in a table for readers.

    ``None`` is "–", booleans are "yes" and "no", numbers have separators of thousands and are not rounded, paths in
    texts are shortened.
    """
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    return shared(f"{value:,}" if isinstance(value, int | float) else str(value))


def markdown_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table in Markdown, its cells as texts of :func:`cell`.

    Columns with any number are right-aligned; numbers within texts do not count.
    """
    ruler = ["---:" if numbers else ":---" for numbers in _right_aligned(rows, len(columns))]
    lines = [[*map(markdown, columns)], ruler, *([markdown(cell(value)) for value in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table in LaTeX with booktabs rules, its cells as texts of :func:`cell`.

    Columns with any number are right-aligned. A minus before a digit is a mathematical one.
    """
    frame = "".join("r" if right else "l" for right in _right_aligned(rows, len(columns)))
    head, *lines = [
        " & ".join(_MINUS.sub("$-$", latex(cell(value))) for value in row) + r" \\" for row in (columns, *rows)
    ]
    body = "\n".join(lines)
    return f"\\begin{{tabular}}{{{frame}}}\n\\toprule\n{head}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"


def html_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return a table in HTML, its texts escaped. Columns with a number have the class ``number``."""
    numeric = [any(map(is_number, values)) for values in zip(*rows, strict=True)] or [False] * len(columns)

    def line(tag: str, texts: Iterable[str]) -> str:
        """Return a row of cells with a tag."""
        kinds = (f'{tag} class="number"' if right else tag for right in numeric)
        return "".join(f"<{kind}>{escaped(text)}</{tag}>" for kind, text in zip(kinds, texts, strict=True))

    body = "\n".join(f"<tr>{line('td', map(cell, row))}</tr>" for row in rows)
    return f"<table>\n<thead><tr>{line('th', columns)}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def csv_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Return comma-separated values with bare numbers; missing values are empty.

    The first line has the columns. Texts are protected from being read as formulas.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(spreadsheet, columns))
    writer.writerows([["" if value is None else spreadsheet(value) for value in row] for row in rows])
    return text.getvalue()


def markdown_page(title: str, tables: Iterable[Grid], notes: Iterable[str]) -> str:
    """Return title, tables and notes in Markdown."""
    heading = f"**{markdown(title)}**\n\n" if title else ""
    below = "".join(f"\n{markdown(note)}\n" for note in notes)
    return heading + "\n".join(markdown_table(*table) for table in tables) + below


def latex_page(title: str, tables: Sequence[Grid], notes: Iterable[str]) -> str:
    """Return tables and notes in LaTeX, with captions and labels.

    Each table is a float of its own: scores, then verdicts if there are any. Notes stand below the last. Heads are as
    in papers. Without a title, the caption is "Scores". Labels are ``tab:`` and up to 40 characters of the caption:
    words in lower case with hyphens. That of verdicts ends with ``-verdicts``.
    """
    title = title or "Scores"
    name = "-".join(re.findall(r"[a-z0-9]+", title.lower()))[:40] or "scores"
    # Signatures have no spaces at which LaTeX could break the line.
    breakable = (_MINUS.sub("$-$", latex(note)).replace("$|$", "$|$\\allowbreak{}") for note in notes)
    last = "".join(f"\\par{{\\footnotesize {note}}}\n" for note in breakable)
    pages = []
    captions = ((title, name), (f"{title}: verdicts", f"{name}-verdicts"))
    for (caption, label), table in zip(captions, tables, strict=False):
        columns, rows = table
        below = last if table is tables[-1] else ""
        begin = f"\\begin{{table}}\n\\centering\n\\caption{{{latex(caption)}}}\n\\label{{tab:{label}}}\n"
        pages.append(f"{begin}{latex_table([*map(head, columns)], rows)}{below}\\end{{table}}\n")
    return "% packages: booktabs\n" + "\n".join(pages)


def html_page(title: str, tables: Iterable[Grid], notes: Iterable[str]) -> str:
    """Return title, tables and notes in HTML."""
    heading = f"<p><em>{escaped(title)}</em></p>\n" if title else ""
    below = "".join(f'\n<p class="note">{escaped(note)}</p>' for note in notes)
    return heading + "\n".join(html_table(*table) for table in tables) + below


def csv_cells(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return a table's cells as comma-separated values, one a line.

    All have the same keys. An interval becomes two columns, a list one column with spaces; missing values are empty.
    """
    lines: list[dict[str, Any]] = []
    for cell in cells:
        line: dict[str, Any] = {}
        for name, value in cell.items():
            if name.startswith("interval"):
                line |= dict(zip((f"{name}_low", f"{name}_high"), value or (None, None), strict=True))
            else:
                line[name] = " ".join(map(str, value)) if isinstance(value, list) else value
        lines.append(line)
    return csv_table(list(lines[0]) if lines else [], [list(line.values()) for line in lines])


def escaped(text: str) -> str:
    """Return text escaped for HTML: home paths are shortened, control characters replaced."""
    return html.escape(printable(shared(text)))


def _right_aligned(rows: Sequence[Sequence[Any]], columns: int) -> list[bool]:
    """Return a list with True for each column in which any cell is a number."""
    return [any(is_number(row[place]) for row in rows) for place in range(columns)]
