"""Collapsed seeds: runs that failed to train, and the exact test of their share.

If one of six seeds stayed at chance, no method for the mean's interval holds its level. Such seeds are therefore
detected, counted, and compared by Fisher's exact test; the means of that row get no verdict.

The j worst of n seeds have collapsed if every one of them lies further below the mean of the others than

    t(1 - 0.01 / C(n, j), n - j - 1) · s · √(1 + 1 / (n - j))

with s the standard deviation of the others. The tail's probability is compared, since no float is that close to 1 for
more than about 50 seeds. At most half of the seeds can collapse, and at least three must remain. At
most 1 % of the rows of normal scores are flagged for each j. A seed with a score that is not finite has diverged, and
counts as collapsed.

Sources: Grubbs 1969 (outliers, with the studentized distance of a new observation); Fisher 1935.
"""

import math
from collections.abc import Sequence

from phmrun.statistics.student import t_cdf

FALSE_FLAGS = 0.01  # share of rows of normal scores in which seeds are flagged
_LEAST = 1e-300
"""Least probability of a tail; those of thousands of seeds are smaller than any float."""


def collapsed(scores: Sequence[float], *, lower_is_better: bool = False) -> list[int]:
    """Return the indices of the collapsed seeds, ascending.

    They are the most seeds that the module's rule flags. Scores that are not finite always count, and are not among the
    rule's n.
    """
    broken = [place for place, score in enumerate(scores) if not math.isfinite(score)]
    gains = [(-score if lower_is_better else score, place) for place, score in enumerate(scores) if place not in broken]
    gains.sort()
    count, flagged = len(gains), 0
    mean = squares = 0.0  # of the others: mean and sum of squared deviations from it (Welford 1962)
    for worst in range(count - 1, 0, -1):
        others, gain = count - worst, gains[worst][0]
        step = (gain - mean) / others
        squares += (gain - mean) * (gain - mean - step)
        mean += step
        distance = mean - gains[worst - 1][0]
        if worst > count // 2 or others < 3 or distance <= 0:
            continue
        spread = math.sqrt(squares / (others - 1) * (1 + 1 / others))
        rare = max(math.exp(math.log(FALSE_FLAGS) - math.log(math.comb(count, worst))), _LEAST)
        if not spread or t_cdf(-distance / spread, others - 1) < rare:
            flagged = max(flagged, worst)
    return sorted([*broken, *(place for _, place in gains[:flagged])])


def fisher_exact(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p-value that two shares are equal.

    It sums the tables with these totals that are at most as likely as the observed one. Each share is ``(cases,
    total)``.
    """
    cases, total = first[0] + second[0], first[1] + second[1]

    def ways(of_first: int) -> int:
        """Count the tables with this many cases in the first share."""
        return math.comb(first[1], of_first) * math.comb(second[1], cases - of_first)

    possible = range(max(0, cases - second[1]), min(cases, first[1]) + 1)
    # Integers, so that ties are exact.
    return sum(ways(count) for count in possible if ways(count) <= ways(first[0])) / math.comb(total, cases)
