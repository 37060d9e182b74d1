"""Student's t distribution, and intervals of a mean and of one further run.

    mean of n runs      mean ± t · s / √n
    one further run     mean ± t · s · √(1 + 1/n)

The first interval shrinks with n. The second predicts the score of a run with another seed.

Sources: Student 1908; prediction interval: Geisser, "Predictive inference", 1993, section 2.2. The distribution is the
regularized incomplete beta function by its continued fraction (Lentz 1976).
"""

import math
from collections.abc import Sequence
from functools import cache
from statistics import fmean, stdev

_STEPS = 300
_SMALL = 1e-300


def t_cdf(t: float, freedom: float) -> float:
    """Return P(T ≤ t).

    It is that of the normal distribution for infinite degrees of freedom.
    """
    if math.isinf(freedom):
        return 0.5 * math.erfc(-t / math.sqrt(2))
    tail = 0.5 * _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))
    return 1 - tail if t > 0 else tail


@cache
def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of a share of the t distribution, by bisection.

    Results are cached. Degrees of freedom may be infinite.

    Raises:
        ValueError: The share is not between 0 and 1, or the degrees of freedom are not positive.
    """
    if not 0 < share < 1 or freedom <= 0:
        raise ValueError(f"there is no t-quantile of {share} with {freedom} degrees of freedom")
    if share < 0.5:
        return -t_quantile(1 - share, freedom)
    low, high = 0.0, 1.0
    while t_cdf(high, freedom) < share:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        if middle in (low, high):
            break  # no number lies between
        low, high = (middle, high) if t_cdf(middle, freedom) < share else (low, middle)
    return (low + high) / 2


def two_sided_p(t: float, freedom: float) -> float:
    """Return P(|T| ≥ |t|) of Student's t distribution.

    For infinite degrees of freedom, it is that of the normal distribution.
    """
    return min(1.0, 2 * t_cdf(-abs(t), freedom))


def interval_of_mean(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return the confidence interval of the mean over seeds.

    The order is low, high. The result is ``None`` for fewer than two runs.
    """
    return _interval(values, level, 0)


def interval_of_one_run(values: Sequence[float], level: float = 0.95) -> tuple[float, float] | None:
    """Return the prediction interval of a further seed.

    The order is low, high. The result is ``None`` for fewer than two runs.
    """
    return _interval(values, level, 1)


def _interval(values: Sequence[float], level: float, runs: int) -> tuple[float, float] | None:
    """Return mean ± t · s · √(runs + 1/n), low end first.

    The result is ``None`` for fewer than two values.
    """
    count = len(values)
    if count < 2:
        return None
    half = t_quantile(0.5 + level / 2, count - 1) * stdev(values) * math.sqrt(runs + 1 / count)
    return fmean(values) - half, fmean(values) + half


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function I_x(a, b).

    It is 0 for x ≤ 0, and 1 for x ≥ 1.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    # The continued fraction converges fast only below this point; above it, the other tail is computed.
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > _SMALL else _SMALL)
    fraction = d
    for step in range(1, _STEPS):
        even = step * (b - step) * x / ((a + 2 * step - 1) * (a + 2 * step))
        odd = -(a + step) * (a + b + step) * x / ((a + 2 * step) * (a + 2 * step + 1))
        for term in (even, odd):
            d, c = 1 + term * d, 1 + term / c
            d = 1 / (d if abs(d) > _SMALL else _SMALL)
            c = c if abs(c) > _SMALL else _SMALL
            fraction *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * fraction / a
