"""Results of finished runs: one long table and its views.

Imports no torch.
"""

from phmrun.results.long_table import Results

__all__ = ["Results"]
