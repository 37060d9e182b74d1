"""Intervals of a mean and of one run, against SciPy."""

import numpy as np
import pytest
from scipy import stats

from phmrun.statistics.student import interval_of_mean


def test_intervals_of_a_mean_and_of_one_run():
    values = [30.0, 31.0, 32.5]
    low, high = interval_of_mean(values)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 2, np.mean(values), stats.sem(values)))
    wide = interval_of_mean(values, runs=1)
    assert wide[1] - wide[0] == pytest.approx((high - low) * 2)  # √(1 + 1/3) / √(1/3)
    assert interval_of_mean([30.0]) is None
