"""Format of a table on standard output: text, Markdown, LaTeX or CSV."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any

from phmrun.cli import console


class Format(StrEnum):
    """Format of a table."""

    TEXT = "text"
    MD = "md"
    LATEX = "latex"
    CSV = "csv"


def print_formatted(columns: Sequence[str], rows: Iterable[Sequence[Any]], style: Format) -> None:
    """Print a table on standard output.

    ``text`` is printed by :func:`console.print_table`, other formats by :func:`formatted`.
    """
    if style is Format.TEXT:
        console.print_table(columns, rows)
    else:
        print(formatted(columns, [*rows], style), end="", flush=True)


def formatted(columns: Sequence[str], rows: Sequence[Sequence[Any]], style: Format) -> str:
    """Return the table as Markdown, LaTeX or comma-separated values.

    Raises:
        KeyError: The format is ``text``.
    """
    from phmrun.results import render  # imports NumPy, which no help text needs

    writers = {Format.MD: render.markdown_table, Format.LATEX: render.latex_table, Format.CSV: render.csv_table}
    return writers[style](columns, rows)
