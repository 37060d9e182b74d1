"""Verdicts that turn between two lengths of training.

A verdict holds for one length. If the sign of a difference turns between two lengths of ``--horizons``, the table says
so. Imports no torch.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

from phmrun.results.row_comparison import Place, RowComparison
from phmrun.results.table import ResultTable
from phmrun.statistics.verdict import Verdict

HORIZON = "horizon"
"""Key of a sweep's cells for the multiple of the configured length."""
LENGTHS = (HORIZON, "training.max_steps", "training.max_epochs")
"""Keys that only change the length of training."""


def with_turns(table: ResultTable, compared: Mapping[Place, RowComparison]) -> dict[Place, RowComparison]:
    """Return the comparisons with their turns between lengths of training.

    Rows that differ only in their length are one system. Its verdict turns if the difference is significant at one
    length and has the other sign at another; both name the other's length. Keys of length are ``horizon``,
    ``training.max_steps`` and ``training.max_epochs``; without one, nothing is marked.
    """
    lengths = [place for place, key in enumerate(table.keys) if key in LENGTHS]
    marked = dict(compared)
    groups: dict[tuple[object, ...], list[Place]] = {}
    for row, column in compared if lengths else ():
        rest = tuple(label for place, label in enumerate(table.rows[row]) if place not in lengths)
        groups.setdefault((*rest, column), []).append((row, column))
    for places in groups.values():
        for place in places:
            judgement = compared[place].judgement
            turned = [
                other
                for other in places
                if _sign(compared[other]) * _sign(compared[place]) < 0
                and Verdict.DIFFERENT in (judgement.verdict, compared[other].verdict)
            ]
            names = [" ".join(table.rows[row][at] for at in lengths) for row, _ in turned]
            marked[place] = replace(compared[place], turns=tuple(names))
    return marked


def _sign(comparison: RowComparison) -> float:
    """Return the sign of a difference: 1 or -1; 0 without one."""
    shown_difference = comparison.judgement.difference
    return math.copysign(1, shown_difference.value) if shown_difference and shown_difference.value else 0
