"""Difference of two means over seeds, with Welch's t interval, simultaneous over rows.

    difference ± t(1 - α_K / 2, ν) · se        se² = s_r² / n_r + s_d² / n_d

α is shared by K rows that are compared with the same dense one, α_K = 1 - (1 - 0.05)^(1/K) each (Šidák 1967). The
degrees of freedom are Satterthwaite's, moved a quarter of the way to those of the smaller group:

    1 / ν = 3/4 · 1 / ν_S + 1/4 · 1 / (min(n_r, n_d) - 1)

Satterthwaite's alone are too many in the far tail that eight rows need. With rows three times as variable as dense,
they give 6.4 % false alarms; the quarter gives 5.1 % (``benchmarks/verdicts.py``). Runs with the same seed share the
order of batches and may correlate, but are not paired: few seeds do not show how much.

Sources: Welch 1947; Satterthwaite 1946; Šidák 1967; Card et al. 2020 (detectable difference).
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev, variance

from scipy.special import stdtr, stdtrit

LEVEL = 0.05
POWER = 0.8
NOT_FLAGGED = 0.975  # share of comparisons of normal scores in which no seed is flagged as collapsed
CAUTION = 0.25  # share of the smaller group's degrees of freedom; chosen by simulation
MOST_SEEDS = 1000  # upper limit of the search for the seeds needed


@dataclass(frozen=True)
class Difference:
    """Mean of a system minus mean of the reference.

    Attributes:
        value: Difference of the means.
        error: Its standard error.
        freedom: Degrees of freedom of that error.
        low: Lower end of the simultaneous interval; -∞ if it is open.
        high: Upper end; ∞ if it is open.
        p: P-value adjusted for rows; below the level if and only if the interval excludes 0. It is 1 without any error.
        detectable: Smallest true difference with a power of 80 %.
        seeds: Seeds of the system and of the reference.
    """

    value: float
    error: float
    freedom: float
    low: float
    high: float
    p: float
    detectable: float
    seeds: tuple[int, int]


def interval_words(low: float | None, high: float | None, form: str = ".2f") -> str:
    """Return an interval in words: "-0.21 to +0.56"; with an open end, infinite or None, "at least -0.21"."""
    if high in (None, math.inf):
        return f"at least {low:+{form}}"
    return f"at most {high:+{form}}" if low in (None, -math.inf) else f"{low:+{form}} to {high:+{form}}"


def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of a share of the t distribution; degrees of freedom may be infinite."""
    return float(stdtrit(freedom, share))


def deviation_of(values: Sequence[float]) -> float | None:
    """Return the sample standard deviation; ``None`` for fewer than two values, or if one is not finite."""
    return stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def interval_of_mean(values: Sequence[float]) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the mean over seeds, low end first.

    It is mean ± t · s / √n, by Student's t distribution (Student 1908). The result is ``None`` without a deviation.
    """
    count, deviation = len(values), deviation_of(values)
    if deviation is None:
        return None
    half = t_quantile(0.975, count - 1) * deviation * math.sqrt(1 / count)
    return fmean(values) - half, fmean(values) + half


def row_level(rows: int) -> float:
    """Return the level of each of several rows that share 5 % (Šidák)."""
    return 1 - (1 - LEVEL) ** (1 / rows)


def error_and_freedom(parts: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return standard error and degrees of freedom of summed variances of means, each with its degrees of freedom.

    Satterthwaite's degrees of freedom and, with weight 1/4 (``CAUTION``), the least of the parts', averaged as
    inverses. Without any variance, 0 and the least.
    """
    total, smallest = sum(part for part, _ in parts), min(freedom for _, freedom in parts)
    if not total:
        return 0.0, smallest
    inverse = sum((part / total) ** 2 / freedom for part, freedom in parts)
    return math.sqrt(total), 1 / ((1 - CAUTION) * inverse + CAUTION / smallest)


def difference(
    system: Sequence[float],
    reference: Sequence[float],
    rows: int = 1,
) -> Difference | None:
    """Return the mean of a system minus that of a reference, with its interval over their seeds.

    Args:
        system: Scores of the system.
        reference: Scores of the reference.
        rows: Number of rows that share the level.

    Returns:
        The difference; ``None`` if a side has fewer than two seeds.
    """
    sides = system, reference
    if min(map(len, sides)) < 2:
        return None
    parts = [(variance(side) / len(side), len(side) - 1.0) for side in sides]
    error, freedom = error_and_freedom(parts)
    return studentised(fmean(system) - fmean(reference), error, freedom, (len(system), len(reference)), rows)


def studentised(value: float, error: float, freedom: float, seeds: tuple[int, int], rows: int = 1) -> Difference:
    """Return the difference of a value with its standard error: interval, adjusted p-value, detectable difference.

    The p-value is 1 if the error is 0.
    """
    critical = t_quantile(1 - row_level(rows) / 2, freedom)
    alone = min(1.0, 2 * float(stdtr(freedom, -abs(value / error)))) if error else 1.0
    p = -math.expm1(rows * math.log1p(-alone)) if alone < 1 else 1.0
    detectable = detectable_errors(critical, freedom) * error
    half = critical * error
    return Difference(value, error, freedom, value - half, value + half, p, detectable, seeds)


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


def detectable_deviations(seeds: int, rows: int = 1) -> float:
    """Return the smallest difference that a comparison detects with a power of 80 %, in deviations over seeds.

    ``seeds``, at least 2, of each side have that deviation; ``rows`` share the level.
    """
    error, freedom = error_and_freedom([(1 / seeds, seeds - 1.0)] * 2)
    return detectable_errors(t_quantile(1 - row_level(rows) / 2, freedom), freedom) * error


def seeds_needed(system: Sequence[float], reference: Sequence[float], target: float, rows: int = 1) -> int | None:
    """Return the number of seeds of each side that detects ``target`` with a power of 80 %, at the spread so far.

    ``target`` is a difference in units of the score. The result is at least 2. ``None`` if more than 1,000 are needed,
    ``target`` is not positive, or there is no spread.
    """
    spreads = [variance(side) for side in (system, reference)]
    if target <= 0 or not sum(spreads):
        return None

    def is_enough(seeds: int) -> bool:
        """True if this number of seeds detects the target."""
        error, freedom = error_and_freedom([(spread / seeds, seeds - 1.0) for spread in spreads])
        return detectable_errors(t_quantile(1 - row_level(rows) / 2, freedom), freedom) * error <= target

    if not is_enough(MOST_SEEDS):
        return None
    return bisect_left(range(2, MOST_SEEDS), True, key=is_enough) + 2
