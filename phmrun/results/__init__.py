"""Everything that finished runs say together: one long table, and the views of it. Imports no torch."""

from phmrun.results.long_table import Results

__all__ = ["Results"]
