"""Difference of two means over seeds, with Welch's t interval, simultaneous over rows and looks.

    difference ± t(1 - α_k / 2, ν) · se        se² = s_r² / n_r + s_d² / n_d

α is shared by K rows that are compared with the same dense one, 1 - (1 - 0.05)^(1/K) each (Šidák 1967), and by the
looks at them (:mod:`phmrun.statistics.looks`). The degrees of freedom are Satterthwaite's, moved a quarter of the way
to those of the smaller group:

    1 / ν = 3/4 · 1 / ν_S + 1/4 · 1 / (min(n_r, n_d) - 1)

Satterthwaite's alone are too many in the far tail that eight rows or four looks need. With rows three times as variable
as dense, they give 7.0 % false alarms; the quarter gives 5.5 % (``benchmarks/verdicts.py``). Runs with the same seed
share the order of batches and may correlate, but are not paired: few seeds do not show how much.

Sources: Welch 1947; Satterthwaite 1946; Šidák 1967; Card et al. 2020 (detectable difference).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from phmrun.statistics.looks import nominal_levels, repeated_level
from phmrun.statistics.student import t_quantile, two_sided_p

LEVEL = 0.05
POWER = 0.8
NOT_FLAGGED = 0.975  # share of comparisons of normal scores in which no seed is flagged as collapsed
CAUTION = 0.25  # share of the smaller group's degrees of freedom; chosen by simulation
MOST_SEEDS = 1000  # upper limit of the search for the seeds needed


@dataclass(frozen=True)
class Design:
    """Rows, looks and level of a comparison, fixed before the first look.

    Attributes:
        rows: Number of rows compared with the same reference.
        looks: Seeds at each look; empty: a single look at all seeds.
        level: Probability of any false statement, over all rows and looks.
    """

    rows: int = 1
    looks: tuple[int, ...] = ()
    level: float = LEVEL

    @property
    def row_level(self) -> float:
        """Level of one row (Šidák)."""
        return 1 - (1 - self.level) ** (1 / self.rows)

    def nominal(self, look: int | None) -> float:
        """Return the two-sided nominal level of one row at a look.

        ``look`` is ``None`` for a single look.

        Raises:
            ValueError: ``look`` is none of the design's looks.
        """
        if look is None:
            return self.row_level
        return nominal_levels(self.looks, self.row_level)[self.looks.index(look)]

    def look_at(self, *seeds: int) -> int | None:
        """Return the last look that all these counts reach.

        The result is ``None`` before the first.
        """
        return max((look for look in self.looks if look <= min(seeds)), default=None)


@dataclass(frozen=True)
class Difference:
    """Mean of a system minus mean of the reference.

    Attributes:
        value: Difference of the means.
        error: Its standard error.
        freedom: Degrees of freedom of that error.
        low: Lower end of the simultaneous interval.
        high: Upper end.
        p: P-value adjusted for rows and looks; below the level if and only if the interval excludes 0.
        detectable: Smallest true difference with a power of 80 %.
        seeds: Seeds of the system and of the reference that were used.
        look: Seeds at the look; ``None`` for a single look.
        level: Level of the interval over all rows and looks.
    """

    value: float
    error: float
    freedom: float
    low: float
    high: float
    p: float
    detectable: float
    seeds: tuple[int, int]
    look: int | None
    level: float


def error_and_freedom(
    parts: Sequence[tuple[float, float]], smallest: float, caution: float = CAUTION
) -> tuple[float, float]:
    """Return standard error and degrees of freedom of summed variances.

    Without any variance, 0 and ``smallest``.

    Args:
        parts: Variances of means, each with its degrees of freedom.
        smallest: Least degrees of freedom of the groups.
        caution: Weight (0–1) of ``smallest`` against Satterthwaite's degrees of freedom, averaged as inverses;
            1/4 by default.
    """
    total = sum(part for part, _ in parts)
    if not total:
        return 0.0, smallest
    inverse = sum((part / total) ** 2 / freedom for part, freedom in parts)
    return math.sqrt(total), 1 / ((1 - caution) * inverse + caution / smallest)


def difference(
    system: Sequence[float], reference: Sequence[float], design: Design, items: tuple[float, float] | None = None
) -> Difference | None:
    """Return the difference of two systems over their seeds.

    Seeds after the last look are not used.

    Args:
        system: Scores of the system.
        reference: Scores of the reference.
        design: Rows, looks and level.
        items: Variance that test items add, with its degrees of freedom, if the population includes them.

    Returns:
        Mean of the system minus that of the reference, with its interval. ``None`` if a side has fewer than two seeds,
        or before the first look.
    """
    if min(len(system), len(reference)) < 2:
        return None
    look = design.look_at(len(system), len(reference)) if design.looks else None
    if design.looks and look is None:
        return None
    ours, theirs = system[:look], reference[:look]
    freedoms = len(ours) - 1.0, len(theirs) - 1.0
    parts = [(variance(ours) / len(ours), freedoms[0]), (variance(theirs) / len(theirs), freedoms[1])]
    parts += [items] if items else []
    error, freedom = error_and_freedom(parts, min(freedoms))
    return studentised(fmean(ours) - fmean(theirs), error, freedom, (len(ours), len(theirs)), design, look)


def studentised(
    value: float, error: float, freedom: float, seeds: tuple[int, int], design: Design, look: int | None = None
) -> Difference:
    """Return the difference of a value with its standard error.

    It has interval, p-value and detectable difference. The p-value is adjusted for rows and looks; it is 1 if the error
    is 0.
    """
    critical = t_quantile(1 - design.nominal(look) / 2, freedom)
    if error:
        nominal = two_sided_p(value / error, freedom)
        overall = nominal if look is None else repeated_level(design.looks, look, nominal)
        p = -math.expm1(design.rows * math.log1p(-overall)) if overall < 1 else 1.0
    else:
        p = 1.0
    detectable = detectable_errors(critical, freedom) * error
    half = critical * error
    return Difference(value, error, freedom, value - half, value + half, p, detectable, seeds, look, design.level)


def noncentrality(critical: float, freedom: float, power: float = POWER) -> float:
    """Return the true difference with this power, in standard errors.

    It exceeds ``critical`` with that probability, by default 80 %. Uses the normal approximation of the noncentral t
    distribution (Abramowitz and Stegun 26.7.10).
    """
    spread = math.sqrt(1 + critical**2 / (2 * freedom))
    return critical * (1 - 1 / (4 * freedom)) + t_quantile(power, math.inf) * spread


def detectable_errors(critical: float, freedom: float) -> float:
    """Return the smallest detectable difference, in estimated standard errors.

    Verdicts find it with a power of 80 %. The estimate of a deviation is too small by 1 / (4·freedom) on average. A
    flagged seed withholds the verdict. The noncentrality, at the power 0.8 / 0.975, is corrected for both.
    """
    return noncentrality(critical, freedom, POWER / NOT_FLAGGED) * (1 + 1 / (4 * freedom))


def seeds_needed(system: Sequence[float], reference: Sequence[float], target: float, design: Design) -> int | None:
    """Return the number of seeds of each side that detects ``target``.

    The power is 80 %, at the spread so far and the level of the last look. ``target`` is a difference in units of the
    score. The result is at least 2. ``None`` if more than 1,000 are needed, ``target`` is not positive, or there is no
    spread.
    """
    spreads = [variance(side) for side in (system, reference)]
    if target <= 0 or not sum(spreads):
        return None
    level = design.nominal(design.looks[-1]) if design.looks else design.row_level

    def power_is_enough(seeds: int) -> bool:
        """True if this number of seeds detects the target."""
        freedom = seeds - 1.0
        error, freedom = error_and_freedom([(spread / seeds, freedom) for spread in spreads], freedom)
        return detectable_errors(t_quantile(1 - level / 2, freedom), freedom) * error <= target

    low, high = 1, MOST_SEEDS
    if not power_is_enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if power_is_enough(middle) else (middle, high)
    return high
