"""A printed number, its digits, and what a computed one is to it."""

import re
from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_UP, Decimal
from enum import StrEnum
from fractions import Fraction

from phmrun.errors import PhmrunError

UNITS = {"": 1, "%": 1, "×": 1, "K": 10**3, "M": 10**6, "B": 10**9, "MB": 10**6}
"""What one of each printed unit is worth; a byte, a parameter, a percent point or a fold is 1."""

_NUMBER = re.compile(r"([-+]?)([\d,]+(?:\.\d+)?|\.\d+) ?(MB|[KMB%×])?")


class Verdict(StrEnum):
    """What the computed number says of the published one."""

    EXACT = "exact"
    """Equal after rounding half up to the printed digits."""
    TRUNCATED = "truncated"
    """Equal after cutting at the printed digits."""
    DIFFERS = "differs"
    UNDERDETERMINED = "underdetermined"
    """The paper does not say all that the number depends on."""
    QUOTED = "quoted"
    """The paper takes the number from another."""


@dataclass(frozen=True)
class Printed:
    """A number as a table prints it."""

    value: Decimal  # in its own unit: 5.5 of "5.5M"
    unit: int  # what one of it is worth

    @classmethod
    def parse(cls, text: str, unit: str = "", digits: int | None = None) -> "Printed":
        """The number in ``text``, with the unit printed behind it or else the column's.

        Args:
            text: As printed.
            unit: The column's.
            digits: How many of its digits count, where the zeros behind them only fill up.

        Raises:
            PhmrunError: It is no number, or the unit is unknown.
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


def judge(printed: Printed, computed: Fraction | int) -> Verdict:
    """Whether ``computed`` rounds to what is printed, is cut to it, or differs."""
    exponent = int(printed.value.as_tuple().exponent)
    scaled = Fraction(computed) / printed.unit / Fraction(10) ** exponent  # in units of the last digit
    target = Fraction(printed.value) / Fraction(10) ** exponent
    if _whole(scaled, ROUND_HALF_UP) == target:
        return Verdict.EXACT
    return Verdict.TRUNCATED if _whole(scaled, ROUND_DOWN) == target else Verdict.DIFFERS


def _whole(value: Fraction, rounding: str) -> int:
    """Exactly rounded towards zero, or to the nearest with halves away from zero."""
    size = abs(value)
    whole = (2 * size + 1) // 2 if rounding == ROUND_HALF_UP else size // 1
    return int(whole) if value >= 0 else -int(whole)
