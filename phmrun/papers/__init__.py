"""Published numbers and the audit of parameter counts.

Imports no torch before counting.
"""
