"""The difference of two systems over seeds and test items together: a hierarchical (multi-) bootstrap.

The test items are resampled, the same ones for every run of both systems. Seeds that both systems share are pairs, else
each system has its own. The standard error of the difference of the means over seeds is of

    se² = var(seeds) / n + var(items) - min(var(seeds × items), var(seeds) / n),    interval: difference ± t_ν · se,

with ν by Welch and Satterthwaite. Resampled seeds need no draws: n - 1 of n drawn with replacement (Rao and Wu 1988)
have the variance s² / n in closed form. What seed and item do together is in both of the first two parts, so it is
taken out once; it follows from how much less a mean of runs varies over resampled items than a single run does. Few
seeds may agree by chance, so that the first part has less of it: no more is taken out than is there, and the error is
never less than that of the items for these runs.

Of one seed the part of the seeds cannot be estimated: the result speaks of these two runs, and says so.

Sources: Sellam et al. 2022, "The MultiBERTs", section 4 (multi-bootstrap); Koehn 2004 (items); Rao and Wu 1988,
"Resampling inference with complex survey data"; Satterthwaite 1946.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phmrun.statistics.student import t_quantile, two_sided_p

Array = NDArray[np.float64]
Measure = Callable[[Array], Array]  # a corpus score from sums of counts, ``[sets, kinds] -> [sets]``
DRAWS = 1000
SEED = 12345


@dataclass(frozen=True)
class Comparison:
    """A system's score minus a baseline's."""

    value: float  # the difference of the means over seeds, on all items
    error: float  # its standard error
    freedom: float  # degrees of freedom of that error
    seeds: tuple[int, int]  # seeds of the system and of the baseline; 1: the error is that of the items alone
    items: bool  # whether the test items were resampled too

    @property
    def p(self) -> float:
        """How often as large a difference would be seen if there were none."""
        if not self.error:
            return 1.0 if not self.value else 0.0
        return two_sided_p(self.value / self.error, self.freedom)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Where the difference lies."""
        half = t_quantile(0.5 + level / 2, self.freedom) * self.error
        return self.value - half, self.value + half


def compare_items(
    system: Sequence[Array], baseline: Sequence[Array], measure: Measure, *, paired: bool, draws: int = DRAWS
) -> Comparison:
    """The comparison of two systems of which every item's counts are known, ``[items, kinds]`` for every seed.

    ``paired`` says that the n-th runs of both share their seed; ``draws`` sets of items are resampled.

    Raises:
        ValueError: There is no run, or the runs were not measured on equally many items.
    """
    sizes = {len(counts) for counts in (*system, *baseline)}
    if len(sizes) != 1 or not system or not baseline:
        raise ValueError(f"a comparison needs the same items of every run, not {sorted(sizes)}")
    stream = np.random.default_rng(SEED)
    first, second = np.stack(system), np.stack(baseline)
    on_all = [np.asarray(measure(side.sum(axis=1)), dtype=np.float64) for side in (first, second)]
    drawn = [np.empty((draws, len(side))) for side in (first, second)]
    (size,) = sizes
    for place in range(draws):
        weights = np.bincount(stream.integers(size, size=size), minlength=size).astype(np.float64)
        for each, side in zip(drawn, (first, second), strict=True):
            each[place] = measure(np.einsum("i,rik->rk", weights, side))
    of_items = float((drawn[0].mean(axis=1) - drawn[1].mean(axis=1)).var(ddof=1))
    of_seeds = 0.0
    if _several(on_all):
        of_seeds = _seed_variance(on_all, paired)
        in_both = sum(_of_seed_and_item(each) for each in drawn)
        of_items -= min(in_both, of_seeds, of_items)  # few seeds may agree by chance: then there is nothing to take out
    return _comparison(on_all, paired, of_seeds, of_items, size)


def compare_scores(system: Sequence[float], baseline: Sequence[float], *, paired: bool) -> Comparison | None:
    """The comparison by the scores of the seeds alone; ``None`` unless each system has two.

    Unpaired it is Welch's t-test, paired Student's.
    """
    both = [np.asarray(side, dtype=np.float64) for side in (system, baseline)]
    if not _several(both):
        return None
    return _comparison(both, paired, _seed_variance(both, paired))


def _of_seed_and_item(drawn: Array) -> float:
    """The part of a mean's variance that is due to seed and item together, by scores ``[draws, seeds]``.

    With σ_i² of items and σ_si² of both, a run's variance over resampled items is σ_i² + σ_si² and that of a mean of n
    runs σ_i² + σ_si² / n.
    """
    count = drawn.shape[1]
    single, together = float(drawn.var(axis=0, ddof=1).mean()), float(drawn.mean(axis=1).var(ddof=1))
    return max(single - together, 0.0) / (count - 1)


def _comparison(
    scores: Sequence[Array], paired: bool, of_seeds: float, of_items: float = 0.0, items: int = 0
) -> Comparison:
    total = of_seeds + of_items
    parts = [(of_items, float(max(items - 1, 1)))]
    if paired:
        parts.append((of_seeds, float(max(len(scores[0]) - 1, 1))))
    elif _several(scores):
        own = [float(side.var(ddof=1)) / len(side) for side in scores]
        scale = of_seeds / sum(own) if sum(own) else 0.0
        parts += [(scale * each, float(len(side) - 1)) for each, side in zip(own, scores, strict=True)]
    below = sum(part * part / freedom for part, freedom in parts)
    freedom = total * total / below if below else float(sum(len(side) - 1 for side in scores) or 1)
    value, seeds = float(scores[0].mean() - scores[1].mean()), (len(scores[0]), len(scores[1]))
    return Comparison(value, math.sqrt(total), freedom, seeds, items > 0)


def _seed_variance(scores: Sequence[Array], paired: bool) -> float:
    """Of the difference of the means, by the scores on all items."""
    if paired:
        return float((scores[0] - scores[1]).var(ddof=1)) / len(scores[0])
    return sum(float(side.var(ddof=1)) / len(side) for side in scores)


def _several(scores: Sequence[Array]) -> bool:
    return all(len(side) > 1 for side in scores)
