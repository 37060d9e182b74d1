"""A number as a paper's table prints it, and the printed cells that stand beside our scores."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from phmrun.errors import PhmrunError

UNITS = {"": 1, "%": 1, "×": 1, "K": 10**3, "M": 10**6, "B": 10**9, "MB": 10**6}
"""What one of each printed unit is worth; a byte, a parameter, a percent point or a fold is 1."""

_NUMBER = re.compile(r"([-+]?)([\d,]+(?:\.\d+)?|\.\d+) ?(MB|[KMB%×])?")


@dataclass(frozen=True)
class Printed:
    """A number as a table prints it."""

    value: Decimal  # in its own unit: 5.5 of "5.5M"
    unit: int  # what one of it is worth

    @classmethod
    def parse(cls, text: str, unit: str = "", digits: int | None = None) -> "Printed":
        """The number in ``text``, with the unit printed behind it or else the column's; refuses what is none.

        Only so many ``digits`` of it count, where the zeros behind them only fill up.
        """
        match = _NUMBER.fullmatch(text.strip().replace("−", "-"))
        if match is None:
            raise PhmrunError(f"{text!r} is not a printed number such as 5.5M, 721K, 29,421,568 or -75.0%")
        sign, number, own = match.groups()
        value = Decimal(sign + number.replace(",", ""))
        return cls(value if digits is None else Decimal(f"{value:.{digits - 1}E}"), UNITS[own or unit])

    @property
    def amount(self) -> Fraction:
        """The number in single parameters, bytes, percent points or folds."""
        return Fraction(self.value) * self.unit


@dataclass(frozen=True)
class PrintedColumn:
    """Scores in a column of a paper's table."""

    cells: Mapping[str, str] = field(default_factory=dict)  # as printed, by row
    measured: str = ""  # metric and settings of the paper, for readers
    signature: str = ""  # the same as parts of our signatures; empty if the paper does not say
    factor: float = 1.0  # multiplies our score: 100 for seconds per 100 steps
