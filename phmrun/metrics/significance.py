"""Whether two systems differ on a test set: the paired bootstrap (Koehn 2004), centred on no difference.

Both systems are scored on the same resampled test sets. The p-value is the share of these whose difference lies as far
from the mean of all differences as the measured one lies from 0: how often as much would be seen, in either direction,
if the systems did not differ. (sacreBLEU counts one direction, so that its value is about half of this one.) It speaks
of the choice of test items; what the seed of the training does is another matter, and stands in the deviation over
seeds.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from phmrun.metrics.bootstrap import Counts, resampled

RESAMPLES = 1000
"""Resampled test sets behind a p-value."""

Measure = Callable[[Counts], Counts]
"""A corpus score from sums of counts, ``[resamples, kinds] -> [resamples]``."""


@dataclass(frozen=True)
class Difference:
    """What one system's score is to another's.

    Attributes:
        value: The first one's minus the second one's, each the mean of its runs.
        p: How often as much would be seen without a difference.
        ci: The central 95% of the differences on resampled test sets.
    """

    value: float
    p: float
    ci: tuple[float, float]


def paired_bootstrap(
    system: Sequence[Counts], baseline: Sequence[Counts], measure: Measure, resamples: int = RESAMPLES
) -> Difference:
    """The difference of two systems.

    Args:
        system: What each test item adds to the counts, ``[items, kinds]``, for every run of the system.
        baseline: The same of the other system, over the same items.
        measure: The score of summed counts.
        resamples: How many test sets are drawn.

    Raises:
        ValueError: The runs were not measured on equally many items, or there is no run.
    """
    sizes = {len(counts) for counts in (*system, *baseline)}
    if len(sizes) != 1 or not system or not baseline:
        raise ValueError(f"a paired test needs the same items of every run, not {sorted(sizes)}")
    drawn = _mean_of_runs(system, measure, resamples) - _mean_of_runs(baseline, measure, resamples)
    whole = _on_all_items(system, measure) - _on_all_items(baseline, measure)
    extreme = int(np.count_nonzero(np.abs(drawn - drawn.mean()) >= abs(whole)))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Difference(whole, (extreme + 1) / (resamples + 1), (float(low), float(high)))


def _mean_of_runs(runs: Sequence[Counts], measure: Measure, resamples: int) -> Counts:
    """Scores on resampled test sets, ``[resamples]``; all runs see the same sets."""
    return np.mean([measure(resampled(counts, resamples)) for counts in runs], axis=0)


def _on_all_items(runs: Sequence[Counts], measure: Measure) -> float:
    return float(np.mean([measure(counts.sum(axis=0, keepdims=True)) for counts in runs]))
