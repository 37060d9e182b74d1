"""Numbers as papers print them, and their agreement with computed ones.

Imports no torch.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
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


class Match(StrEnum):
    """Agreement in the printed digits."""

    ROUNDED = "rounded"  # equal after rounding to the printed digits, halves away from zero
    CUT = "cut"  # equal after truncation to the printed digits
    NONE = "none"


class Verdict(StrEnum):
    """Agreement of computed and published number.

    Only ``FOLLOWS`` is evidence for a reading.
    """

    FOLLOWS = "follows"  # from the settings of the paper or of the code that it names
    TRIVIAL = "trivial"  # equal for any network: 0 for an absent part, 100 % of itself
    FITTED = "fitted"  # it rests on a setting that printed counts chose, maybe against the text
    ROUNDED = "rounded"  # cut, of fewer digits than are printed, or derived from other printed numbers
    DIFFERS = "differs"
    UNDERDETERMINED = "underdetermined"  # the paper does not state all that the number depends on
    QUOTED = "quoted"  # the paper takes the number from another


def judge(printed: Printed, computed: Fraction | int) -> Match:
    """Compare a computed number with a printed one at its printed digits.

    The computed number is divided by the printed unit. ROUNDED is tried first (halves away from zero), then CUT (toward
    zero); else NONE.
    """
    exponent = int(printed.value.as_tuple().exponent)
    scaled = Fraction(computed) / printed.unit / Fraction(10) ** exponent  # in units of the last digit
    target = Fraction(printed.value) / Fraction(10) ** exponent
    size, sign = abs(scaled), 1 if scaled >= 0 else -1
    if sign * ((2 * size + 1) // 2) == target:  # to the nearest with halves away from zero
        return Match.ROUNDED
    return Match.CUT if sign * (size // 1) == target else Match.NONE


def headline(verdicts: Sequence[str]) -> str:
    """Return a one-line count of verdicts.

    "12 of 14 figures follow from the settings; 1 rounded, 1 differs": other verdicts are named only if they occur.
    """
    counts = Counter(map(str, verdicts))
    others = ", ".join(f"{counts[name]} {name}" for name in Verdict if counts[name] and name != Verdict.FOLLOWS)
    follow = f"{counts[Verdict.FOLLOWS]} of {len(verdicts)} figures follow from the settings"
    return f"{follow}; {others}" if others else follow
