"""Everything that finished runs say together: entries, tables, costs, comparisons, pictures. Imports no torch."""
