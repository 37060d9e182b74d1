"""Confidence intervals by resampling a test set (Efron 1979; for corpus scores: Koehn 2004).

A corpus score is a function of counts that add up over sentences. A resampled test set has as many sentences, drawn
with replacement; the central 95% of its scores are the interval.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]
SEED = 12345  # as sacreBLEU's


def resampled(counts: Counts, resamples: int, seed: int = SEED) -> Counts:
    """Sums of as many resampled test sets, of what each sentence adds: ``[sentences, kinds] -> [resamples, kinds]``.

    The same sentences in the same order and seed give the same sets.
    """
    size = len(counts)
    stream = np.random.PCG64(seed)  # whose raw stream NumPy promises not to change
    sums = np.empty((resamples, counts.shape[1]))
    for row in range(resamples):
        sums[row] = np.bincount(stream.random_raw(size) % np.uint64(size), minlength=size) @ counts
    return sums


def interval(sums: Counts, score: Callable[[Counts], Counts]) -> tuple[float, float]:
    """The central 95% of the scores of resampled test sets, of sums ``[resamples, kinds]`` by ``score``."""
    low, high = np.percentile(score(sums), [2.5, 97.5])
    return float(low), float(high)
