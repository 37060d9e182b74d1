"""Published numbers, and ours beside them. Imports no torch until something is counted."""

from phmrun.papers.published import PaperRow, PaperTable, Printed, Verdict, judge, load_table, paper_names, table_names

__all__ = ["PaperRow", "PaperTable", "Printed", "Verdict", "judge", "load_table", "paper_names", "table_names"]
