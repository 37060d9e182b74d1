"""What a comparison decides: different, not worse by more than δ, or undecided, and what it could have seen.

    different                   the p-value, corrected for the number of rows (Holm), is below the level
    not worse by more than δ    a one-sided test against "worse by δ or more" is below the level, corrected as well
    undecided                   neither; what it could have seen is said

"Undecided" is no proof of equality. The smallest difference that the comparison would have detected with a power of
80 % is (t_{1-α/2} + t_{0.8}) · se (Card et al. 2020).

A row cannot be wrongly called both: where it differs by nothing, "not worse" is true; where it is worse by δ, it does
differ. So each of the two questions has the whole level (Goeman, Solari and Stijnen 2010).

Sources: Card et al. 2020, "With little power comes great responsibility"; Schuirmann 1987 (equivalence by one-sided
tests); Holm 1979.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from phmrun.statistics.hierarchical import Comparison
from phmrun.statistics.holm import holm
from phmrun.statistics.student import t_cdf, t_quantile

LEVEL = 0.05
POWER = 0.8


class Verdict(StrEnum):
    """What is known of a row."""

    DIFFERENT = "different"
    NOT_WORSE = "not worse"
    """By more than δ."""
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

    Args:
        comparisons: One for each row.
        lower_is_better: The direction of the score.
        margin: δ; ``None``: only differences are sought.
        level: The chance of any false alarm.
    """
    adjusted = holm([each.p for each in comparisons])
    margins = [p_not_worse(each, margin, lower_is_better=lower_is_better) if margin else 1.0 for each in comparisons]
    not_worse = holm(margins)
    found = []
    for place, each in enumerate(comparisons):
        one_seed = min(each.seeds) < 2
        verdict = Verdict.UNDECIDED
        if not one_seed and adjusted[place] <= level:
            verdict = Verdict.DIFFERENT
        elif not one_seed and margin and not_worse[place] <= level:
            verdict = Verdict.NOT_WORSE
        better = each.value < 0 if lower_is_better else each.value > 0
        found.append(
            Decision(
                verdict,
                better,
                adjusted[place],
                not_worse[place] if margin else None,
                margin,
                detectable(each, level / len(comparisons)),
                one_seed,
            )
        )
    return found


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
