"""What a row of a table is beside the dense one, as plots and pages show it."""

from typing import NamedTuple


class Effect(NamedTuple):
    """A row beside the dense one.

    Attributes:
        label: What the row is called.
        value: The difference of its score.
        low: The lower end of its 95 % interval.
        high: The upper end.
        seeds: So many pairs of runs.
        different: Whether the comparison has decided that it differs.
    """

    label: str
    value: float
    low: float
    high: float
    seeds: int
    different: bool
