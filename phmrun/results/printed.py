"""Numbers as printed in a paper's table."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction

from phmrun.errors import PhmrunError

UNITS = {"": 1, "%": 1, "×": 1, "K": 10**3, "M": 10**6, "B": 10**9, "MB": 10**6}
"""Factor of each printed unit, in bytes, parameters, percentage points or folds."""

_NUMBER = re.compile(r"([-+]?)([\d,]+(?:\.\d+)?|\.\d+) ?(MB|[KMB%×])?")


@dataclass(frozen=True)
class Printed:
    """Number as a table prints it."""

    value: Decimal  # in the printed unit: 5.5 of "5.5M"
    unit: int  # factor of the printed unit

    @classmethod
    def parse(cls, text: str, unit: str = "", digits: int | None = None) -> "Printed":
        """Parse a printed number, such as "5.5M", "29,421,568" or "-75.0%".

        Args:
            text: The cell, such as "5.5M".
            unit: The column's unit, used if the cell has none.
            digits: Number of significant digits that count; all if not given.

        Raises:
            PhmrunError: (exit 2) The text is no printed number.
        """
        match = _NUMBER.fullmatch(text.strip().replace("−", "-"))
        if match is None:
            raise PhmrunError(f"{text!r} is not a printed number such as 5.5M, 721K, 29,421,568 or -75.0%")
        sign, number, printed_unit = match.groups()
        value = Decimal(sign + number.replace(",", ""))
        return cls(value if digits is None else Decimal(f"{value:.{digits - 1}E}"), UNITS[printed_unit or unit])

    @property
    def amount(self) -> Fraction:
        """Exact number in single parameters, bytes, percentage points or folds."""
        return Fraction(self.value) * self.unit


@dataclass(frozen=True)
class PrintedColumn:
    """Score column of a paper's table."""

    cells: Mapping[str, str] = field(default_factory=dict)  # as printed, by row
    measured: str = ""  # metric and settings of the paper, for readers
    signature: str = ""  # the same as parts of our signatures; empty if not stated
    factor: float = 1.0  # multiplies our score: 100 for seconds per 100 steps
