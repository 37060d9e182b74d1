"""Agreement of a computed number with a published one.

Imports no torch.
"""

from collections.abc import Sequence
from enum import StrEnum
from fractions import Fraction

from phmrun.results.printed import Printed


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
    counts = {name: verdicts.count(name) for name in (str(verdict) for verdict in Verdict)}
    others = ", ".join(f"{count} {name}" for name, count in counts.items() if count and name != Verdict.FOLLOWS)
    follow = f"{counts[Verdict.FOLLOWS]} of {len(verdicts)} figures follow from the settings"
    return f"{follow}; {others}" if others else follow
