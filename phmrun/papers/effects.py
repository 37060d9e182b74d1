"""What a row of a table is beside the dense one, as plots and pages show it."""

from typing import NamedTuple


class Effect(NamedTuple):
    """A row beside the dense one."""

    label: str  # what the row is called
    value: float  # the difference of its score
    low: float  # the lower end of its 95 % interval
    high: float  # the upper end
    seeds: int  # so many pairs of runs
    different: bool  # whether the comparison has decided that it differs
