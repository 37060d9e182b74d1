"""Agreement of a computed number with a published one. Imports no torch."""

from enum import StrEnum
from fractions import Fraction

from phmrun.results.printed import Printed


class Verdict(StrEnum):
    """What the computed number says of the published one."""

    EXACT = "exact"  # equal after rounding half up to the printed digits
    TRUNCATED = "truncated"  # equal after cutting at the printed digits
    DIFFERS = "differs"
    UNDERDETERMINED = "underdetermined"  # the paper does not say all that the number depends on
    QUOTED = "quoted"  # the paper takes the number from another


def judge(printed: Printed, computed: Fraction | int) -> Verdict:
    """Whether ``computed`` rounds to what is printed, is cut to it, or differs."""
    exponent = int(printed.value.as_tuple().exponent)
    scaled = Fraction(computed) / printed.unit / Fraction(10) ** exponent  # in units of the last digit
    target = Fraction(printed.value) / Fraction(10) ** exponent
    size, sign = abs(scaled), 1 if scaled >= 0 else -1
    if sign * ((2 * size + 1) // 2) == target:  # to the nearest with halves away from zero
        return Verdict.EXACT
    return Verdict.TRUNCATED if sign * (size // 1) == target else Verdict.DIFFERS
