"""Variance of a difference over test items, in closed form or resampled.

Both systems answer the same items, so items are paired. The runs at hand are fixed, each side averaged over its seeds.
A mean over items has its variance in closed form; another measure (BLEU, F1) is resampled.

Source: Koehn 2004.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Measure = Callable[[Array], Array]  # a corpus score from sums of counts, ``[sets, kinds] -> [sets]``
DRAWS = 1000
SEED = 12345
_MOST = 2**23
"""Most numbers in a block of resampled test sets."""


@dataclass(frozen=True)
class ItemVariance:
    """Variance of a difference over test items.

    Attributes:
        of_items: Variance for the runs at hand, each side averaged over its seeds.
        items: Number of items.
        scores: Score of each seed on all items, of the system and of the reference.
    """

    of_items: float
    items: int
    scores: tuple[tuple[float, ...], tuple[float, ...]]

    @property
    def freedom(self) -> float:
        """Degrees of freedom of the items: their number minus 1, at least 1."""
        return float(max(self.items - 1, 1))


def variance_of_means(system: Sequence[Array], reference: Sequence[Array]) -> ItemVariance:
    """Return the variance over items of mean scores.

    A score is the mean of item values. The variance over a single item counts as 0.

    Args:
        system: Item values ``[items]`` of each seed.
        reference: The same of the reference.

    Raises:
        ValueError: The runs have different numbers of items.
    """
    sides = [np.stack(side) for side in (system, reference)]
    count = _same_items([run for side in sides for run in side])
    together = [side.mean(axis=0) for side in sides]
    of_items = float((together[0] - together[1]).var(ddof=1)) / count if count > 1 else 0.0
    first, second = (tuple(side.mean(axis=1).tolist()) for side in sides)
    return ItemVariance(of_items, count, (first, second))


@dataclass(frozen=True)
class Resampled:
    """Scores of a run on resampled test sets.

    Attributes:
        score: Score on all items.
        drawn: Score on each resample, ``[draws]``.
        items: Number of items.
    """

    score: float
    drawn: Array
    items: int


def resampled(runs: Sequence[NDArray[Any]], measure: Measure, draws: int = DRAWS) -> list[Resampled]:
    """Return the scores of runs on the same resamples, drawn with a fixed seed.

    The resamples depend on nothing but the number of items and ``draws``.

    Args:
        runs: Counts ``[items, kinds]`` of each run, natural numbers of any type; at least one run.
        measure: Corpus scores ``[sets]`` from sums of counts ``[sets, kinds]``.
        draws: Number of resamples, at least 2; 1,000 by default.

    Raises:
        ValueError: The runs have different numbers of items.
    """
    count, kinds = _same_items(runs), runs[0].shape[1]
    counts: Array = np.concatenate(runs, axis=1).astype(np.float64)
    weights, most = _resamples(count, draws), counts.max(axis=0)
    # A resample has as many items as the test set, so only what an item lacks of the greatest counts is summed: nothing
    # for most items of shares. Sums below 2²⁴ are exact in single precision.
    exact = np.float32 if most.max() * count < 2**24 else np.float64
    lacking = (most - counts).astype(exact)
    items, columns = lacking.any(axis=1).nonzero()[0], lacking.any(axis=0).nonzero()[0]
    lacking = lacking[np.ix_(items, columns)]

    def scores(sums: Array) -> Array:
        """Return the scores ``[sets, runs]`` of sums of all columns, ``[sets, columns]``."""
        return np.asarray(measure(sums.reshape(-1, kinds)), dtype=np.float64).reshape(len(sums), len(runs))

    on_all = scores(counts.sum(axis=0)[None])[0]
    together = max(1, _MOST // max(1, len(items)))
    sums: Array = np.tile(most * count, (draws, 1))
    for at in range(0, draws, together):
        sums[at : at + together, columns] -= weights[at : at + together, items].astype(exact) @ lacking
    drawn = scores(sums)
    return [Resampled(float(score), drawn[:, number], count) for number, score in enumerate(on_all)]


@lru_cache(maxsize=8)
def _resamples(count: int, draws: int) -> NDArray[Any]:
    """Return how often each of ``draws`` resamples has each of ``count`` items, ``[draws, items]``; cached."""
    stream = np.random.default_rng(SEED)
    sets = (np.bincount(stream.integers(count, size=count), minlength=count) for _ in range(draws))
    return np.stack([times.astype(np.min_scalar_type(times.max())) for times in sets])


def variance_of_resamples(system: Sequence[Resampled], reference: Sequence[Resampled]) -> ItemVariance:
    """Return the variance over items of a difference, from the runs of both sides on the same resamples."""
    sides = [np.stack([run.drawn for run in side], axis=1) for side in (system, reference)]
    of_items = float((sides[0].mean(axis=1) - sides[1].mean(axis=1)).var(ddof=1))
    first, second = (tuple(run.score for run in side) for side in (system, reference))
    return ItemVariance(of_items, system[0].items, (first, second))


def _same_items(runs: Iterable[NDArray[Any]]) -> int:
    """Return the number of items, axis 0 of every run.

    Raises:
        ValueError: The runs have different numbers of items.
    """
    counts = {len(run) for run in runs}
    if len(counts) != 1:
        raise ValueError(f"a comparison needs the same items of every run, not {sorted(counts)}")
    return counts.pop()
