"""Published numbers and the audit of parameter counts.

Imports no torch before counting.
"""

from phmrun.papers.published import Match, Printed, Verdict, judge
from phmrun.papers.table import PaperRow, PaperTable, load_table, paper_names, table_names
