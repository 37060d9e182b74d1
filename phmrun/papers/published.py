"""Agreement of a computed number with a published one. Imports no torch."""

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from phmrun.results.printed import Printed


class Match(StrEnum):
    """Digits of a computed number beside those of a printed one."""

    ROUNDED = "rounded"  # equal after rounding half up to the printed digits
    CUT = "cut"  # equal after cutting at the printed digits
    NONE = "none"


class Verdict(StrEnum):
    """Agreement of the computed number with the published one; only ``FOLLOWS`` is evidence for a reading."""

    FOLLOWS = "follows"  # from the settings of the paper or of the code that it names
    TRIVIAL = "trivial"  # equal whatever the network is: 0 of a part that is not there, 100 % of itself
    FITTED = "fitted"  # an option was chosen to meet the number
    ROUNDED = "rounded"  # cut, of fewer digits than are printed, or derived from other printed numbers
    DIFFERS = "differs"
    UNDERDETERMINED = "underdetermined"  # the paper does not say all that the number depends on
    QUOTED = "quoted"  # the paper takes the number from another


def judge(printed: Printed, computed: Fraction | int) -> Match:
    """Compare a computed number with a printed one, digit by digit."""
    exponent = int(printed.value.as_tuple().exponent)
    scaled = Fraction(computed) / printed.unit / Fraction(10) ** exponent  # in units of the last digit
    target = Fraction(printed.value) / Fraction(10) ** exponent
    size, sign = abs(scaled), 1 if scaled >= 0 else -1
    if sign * ((2 * size + 1) // 2) == target:  # to the nearest with halves away from zero
        return Match.ROUNDED
    return Match.CUT if sign * (size // 1) == target else Match.NONE


def headline(verdicts: Sequence[str]) -> str:
    """One line on the verdicts of some figures: those that follow first, and the others by their reason."""
    counts = {name: verdicts.count(name) for name in (str(verdict) for verdict in Verdict)}
    others = ", ".join(f"{count} {name}" for name, count in counts.items() if count and name != Verdict.FOLLOWS)
    follow = f"{counts[Verdict.FOLLOWS]} of {len(verdicts)} figures follow from the settings"
    return f"{follow}; {others}" if others else follow
