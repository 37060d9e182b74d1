"""Intervals of a mean and of one further run, by Student's t distribution (SciPy's).

    mean of n runs      mean ± t · s / √n
    one further run     mean ± t · s · √(1 + 1/n)

The first interval shrinks with n. The second predicts the score of a run with another seed.

Sources: Student 1908; prediction interval: Geisser, "Predictive inference", 1993, section 2.2.
"""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from scipy.special import stdtrit


def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of a share of the t distribution; degrees of freedom may be infinite."""
    return float(stdtrit(freedom, share))


def interval_of_mean(values: Sequence[float], runs: int = 0) -> tuple[float, float] | None:
    """Return the 95 % confidence interval of the mean over seeds, low end first.

    With ``runs`` = 1, it is the prediction interval of a further seed. The result is ``None`` for fewer than two
    values.
    """
    count = len(values)
    if count < 2:
        return None
    half = t_quantile(0.975, count - 1) * stdev(values) * math.sqrt(runs + 1 / count)
    return fmean(values) - half, fmean(values) + half
