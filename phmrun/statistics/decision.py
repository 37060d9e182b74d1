"""What a comparison decides: different, not worse by more than δ, or undecided, and what it could have seen.

    different                   the p-value, corrected for the number of rows (Holm), is below the level
    not worse by more than δ    a one-sided test against "worse by δ or more" is below the level, corrected as well
    undecided                   neither; what it could have seen is said

Holm's correction keeps the chance of any false alarm among several comparisons below the level: the i-th smallest of m
p-values is multiplied by m - i + 1, and a later one is never smaller than an earlier one. It needs nothing to be known
of how the comparisons depend on each other, such as the dense row that all of them share.

"Undecided" is no proof of equality. The smallest difference that the comparison would have detected with a power of
80 % is (t_{1-α/2} + t_{0.8}) · se (Card et al. 2020).

A row cannot be wrongly called both: where it differs by nothing, "not worse" is true; where it is worse by δ, it does
differ. So each of the two questions has the whole level (Goeman, Solari and Stijnen 2010).

Sources: Card et al. 2020, "With little power comes great responsibility"; Schuirmann 1987 (equivalence by one-sided
tests); Holm 1979, "A simple sequentially rejective multiple test procedure".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from phmrun.statistics.hierarchical import Comparison
from phmrun.statistics.student import t_cdf, t_quantile

LEVEL = 0.05
POWER = 0.8


class Verdict(StrEnum):
    """What is known of a row."""

    DIFFERENT = "different"
    NOT_WORSE = "not worse"  # by more than δ
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Decision:
    """What a comparison says of a row."""

    verdict: Verdict  # what is known
    better: bool  # whether the row's mean is the better one
    p: float  # of a difference, corrected for the number of rows
    p_not_worse: float | None  # of "worse by δ or more", corrected; ``None`` without δ
    margin: float | None  # δ, in units of the score
    detectable: float  # the smallest difference that would have been seen with a power of 80 %
    one_seed: bool  # whether a single seed leaves the training out of the account, so that nothing is decided


def decide(
    comparisons: Sequence[Comparison], *, lower_is_better: bool, margin: float | None = None, level: float = LEVEL
) -> list[Decision]:
    """The decisions on several rows, each compared with the same baseline.

    ``margin`` is δ (without it only differences are sought), ``level`` the chance of any false alarm.
    """
    adjusted = holm([each.p for each in comparisons])
    not_worse = holm([p_not_worse(each, margin or 0, lower_is_better=lower_is_better) for each in comparisons])
    found = []
    for place, each in enumerate(comparisons):
        one_seed = min(each.seeds) < 2
        verdict = Verdict.UNDECIDED
        if not one_seed and adjusted[place] <= level:
            verdict = Verdict.DIFFERENT
        elif not one_seed and margin and not_worse[place] <= level:
            verdict = Verdict.NOT_WORSE
        better = each.value < 0 if lower_is_better else each.value > 0
        p_of_not_worse, least = not_worse[place] if margin else None, detectable(each, level / len(comparisons))
        found.append(Decision(verdict, better, adjusted[place], p_of_not_worse, margin, least, one_seed))
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order of the given ones."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted


def p_not_worse(comparison: Comparison, margin: float, *, lower_is_better: bool) -> float:
    """How often as good a mean would be seen if the row were worse by the margin."""
    gain = -comparison.value if lower_is_better else comparison.value
    if not comparison.error:
        return 0.0 if gain > -margin else 1.0
    return 1 - t_cdf((gain + margin) / comparison.error, comparison.freedom)


def detectable(comparison: Comparison, level: float = LEVEL, power: float = POWER) -> float:
    """The smallest difference that is found with this power at this level."""
    t = t_quantile(1 - level / 2, comparison.freedom) + t_quantile(power, comparison.freedom)
    return t * comparison.error
