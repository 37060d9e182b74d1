"""Bootstrap confidence intervals of test scores (Efron 1979; for corpus scores: Koehn 2004).

A corpus score is a function of counts that add up over sentences. A resampled test set has the same number of
sentences, drawn with replacement. The interval is the central 95 % of the scores of resampled test sets.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.float64]
SEED = 12345  # default of sacreBLEU


def resampled(counts: Counts, resamples: int, seed: int = SEED) -> Counts:
    """Return the summed counts of resampled test sets.

    The sets depend on the number of sentences and the seed only.

    Args:
        counts: Counts per sentence, ``[sentences, kinds]``, of at least one sentence.
        resamples: Number of resampled test sets.
        seed: Random seed.

    Returns:
        ``[resamples, kinds]``.
    """
    size = len(counts)
    stream = np.random.PCG64(seed)  # NumPy guarantees a stable raw stream
    sums = np.empty((resamples, counts.shape[1]))
    for row in range(resamples):
        sums[row] = np.bincount(stream.random_raw(size) % np.uint64(size), minlength=size) @ counts
    return sums


def interval(sums: Counts, score: Callable[[Counts], Counts]) -> tuple[float, float]:
    """Return the 2.5 and 97.5 % quantiles of resampled scores.

    Args:
        sums: Summed counts, ``[resamples, kinds]``.
        score: Function of summed counts: ``[resamples, kinds] -> [resamples]``.
    """
    low, high = np.percentile(score(sums), [2.5, 97.5])
    return float(low), float(high)
