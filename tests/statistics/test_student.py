"""Student's distribution and the intervals of a mean and of one run, against SciPy."""

import numpy as np
import pytest

from phmrun.statistics.student import interval_of_mean, interval_of_one_run, t_cdf, t_quantile


@pytest.fixture(scope="module")
def stats():
    """SciPy's, where it is installed."""
    return pytest.importorskip("scipy.stats")


@pytest.mark.parametrize("freedom", [1, 2, 3.7, 9, 40, 1000])
@pytest.mark.parametrize("t", [-6.0, -1.5, 0.0, 0.3, 2.0, 12.0])
def test_students_distribution_is_scipys(stats, t, freedom):
    assert t_cdf(t, freedom) == pytest.approx(stats.t.cdf(t, freedom), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("freedom", [1, 2.5, 9, 200])
def test_students_quantiles_are_scipys(stats, freedom):
    for share in (0.025, 0.5, 0.8, 0.975, 0.9995):
        assert t_quantile(share, freedom) == pytest.approx(stats.t.ppf(share, freedom), rel=1e-8, abs=1e-9)


def test_intervals_of_a_mean_and_of_one_run(stats):
    values = [30.0, 31.0, 32.5]
    low, high = interval_of_mean(values)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 2, np.mean(values), stats.sem(values)))
    wide = interval_of_one_run(values)
    assert wide[1] - wide[0] == pytest.approx((high - low) * 2)  # √(1 + 1/3) / √(1/3)
    assert interval_of_mean([30.0]) is None
