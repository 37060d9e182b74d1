"""Published numbers, and ours beside them. Imports no torch until something is counted."""

from phmrun.papers.published import (
    Column,
    PaperRow,
    PaperTable,
    Printed,
    Verdict,
    judge,
    load_table,
    paper_names,
    table_names,
)

__all__ = [
    "Column",
    "PaperRow",
    "PaperTable",
    "Printed",
    "Verdict",
    "judge",
    "load_table",
    "paper_names",
    "table_names",
]
