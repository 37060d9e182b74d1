"""Collapsed seeds: runs that failed to train, and the exact test of their share.

If one of six seeds stayed at chance, no method for the mean's interval holds its level. Such seeds are therefore
detected, counted, and compared by Fisher's exact test; the means of that row get no verdict.

The j worst of n seeds have collapsed if every one of them lies further below the mean of the others than

    t(1 - 0.01 / C(n, j), n - j - 1) · s · √(1 + 1 / (n - j))

with s the standard deviation of the others. At most half of the seeds can collapse, and at least three must remain. At
most 1 % of the rows of normal scores are flagged for each j. A seed with a score that is not finite has diverged, and
counts as collapsed.

Sources: Grubbs 1969 (outliers, with the studentized distance of a new observation); Fisher 1935.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from phmrun.statistics.student import t_quantile

FALSE_FLAGS = 0.01  # share of rows of normal scores in which seeds are flagged


def collapsed(scores: Sequence[float], *, lower_is_better: bool = False) -> list[int]:
    """Return the indices of the collapsed seeds, ascending.

    They are judged by the module's rule. Scores that are not finite always count.
    """
    broken = [place for place, score in enumerate(scores) if not math.isfinite(score)]
    gains = [(-score if lower_is_better else score, place) for place, score in enumerate(scores) if place not in broken]
    gains.sort()
    count, flagged = len(gains), 0
    for worst in range(1, count // 2 + 1):
        others = [gain for gain, _ in gains[worst:]]
        if len(others) < 3:
            break
        distance = fmean(others) - gains[worst - 1][0]
        quantile = t_quantile(1 - FALSE_FLAGS / math.comb(count, worst), len(others) - 1)
        if distance > quantile * stdev(others) * math.sqrt(1 + 1 / len(others)) and distance > 0:
            flagged = worst
    return sorted([*broken, *(place for _, place in gains[:flagged])])


def fisher_exact(first: tuple[int, int], second: tuple[int, int]) -> float:
    """Return the two-sided p-value that two shares are equal.

    Each share is ``(cases, total)``.
    """
    cases, total = first[0] + second[0], first[1] + second[1]

    def ways(of_first: int) -> int:
        """Count the tables with this many cases in the first share."""
        return math.comb(first[1], of_first) * math.comb(second[1], cases - of_first)

    possible = range(max(0, cases - second[1]), min(cases, first[1]) + 1)
    # Integers, so that ties are exact.
    return sum(ways(count) for count in possible if ways(count) <= ways(first[0])) / math.comb(total, cases)
