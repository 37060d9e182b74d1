"""Levels of a group-sequential design, so that several looks at growing data share one level.

With n_k of N seeds at look k, a share α · n_k / N of the level is spent by then (Lan and DeMets 1983, linear). The
nominal level of a look follows from the joint distribution of the looks, a Brownian motion seen at times n_k, by the
recursive integration of Armitage, McPherson and Rowe (1969). Each nominal level is then used with Student's t instead
of the normal distribution (Jennison and Turnbull 2000, section 3.8: the significance-level approach).

An interval at the nominal level of each look is a repeated confidence interval: with probability 1 - α, the intervals
of all looks contain the true value, whatever the stopping rule (Jennison and Turnbull 1989).
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from phmrun.statistics.student import t_quantile

_POINTS = 129  # grid points over the continuation region
_STEPS = 40  # steps of each bisection
_LEAST = 1e-12  # nominal levels below this are treated as spent at one look


def nominal_levels(looks: Sequence[int], level: float) -> tuple[float, ...]:
    """Return the two-sided nominal level of each look.

    Args:
        looks: Seeds at each look.
        level: Overall level.

    Raises:
        ValueError: The looks are not positive and growing, or the level is not between 0 and 1.
    """
    if not looks or looks[0] < 1 or any(later <= earlier for earlier, later in pairwise(looks)):
        raise ValueError(f"looks are growing numbers of seeds, not {list(looks)}")
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level}")
    return _nominal(tuple(looks), level)


def repeated_level(looks: Sequence[int], look: int, nominal: float) -> float:
    """Return the overall level of a nominal level at a look.

    It is at most 1. It is the p-value of a repeated confidence interval, interpolated between levels that are a factor
    of 10^(1/8) apart. With a single look it is the nominal level; for those below 1e-12 it is nominal · last look /
    ``look``.

    Args:
        looks: Seeds at each look.
        look: One of them.
        nominal: Two-sided nominal level, such as a p-value at that look.

    Raises:
        ValueError: ``look`` is none of several looks, and ``nominal`` below 1.
    """
    if len(looks) == 1 or nominal >= 1:
        return min(nominal, 1.0)
    place, kept = list(looks).index(look), tuple(looks)
    if nominal < _LEAST:
        return min(1.0, nominal * looks[-1] / look)
    # The overall level is at least the nominal one; nodes[k] has the level 10^(-k/8).
    low, high = 0, math.floor(-8 * math.log10(nominal)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _nominal(kept, _node(middle))[place] >= nominal else (low, middle)
    above, below = (math.log(_nominal(kept, _node(step))[place]) for step in (low, high))
    share = (above - math.log(nominal)) / (above - below)
    return min(1.0, math.exp(math.log(_node(low)) + share * math.log(_node(high) / _node(low))))


def _node(step: int) -> float:
    """Return the overall level 10^(-step / 8), below 1."""
    return min(10 ** (-step / 8), 1 - 1e-9)


@lru_cache(maxsize=1024)
def _nominal(looks: tuple[int, ...], level: float) -> tuple[float, ...]:
    """Return the nominal level of each look; cached.

    The density of continuing paths is integrated from look to look.
    """
    first = level * looks[0] / looks[-1]
    bound = t_quantile(1 - first / 2, math.inf)
    levels, spent, before = [first], first, looks[0]
    points = np.linspace(-bound, bound, _POINTS) * math.sqrt(before)
    mass = np.exp(-(points**2) / (2 * before)) / math.sqrt(2 * math.pi * before) * _weights(points)
    for look in looks[1:]:
        deviation, allowed = math.sqrt(look - before), level * look / looks[-1] - spent
        low, high = 0.0, 40.0
        for _ in range(_STEPS):
            bound = (low + high) / 2
            edge = bound * math.sqrt(look)
            crossing = float(mass @ (_tail((edge - points) / deviation) + _tail((edge + points) / deviation)))
            low, high = (bound, high) if crossing > allowed else (low, bound)
        levels.append(2 * float(_tail(np.array([bound]))[0]))
        further = np.linspace(-bound, bound, _POINTS) * math.sqrt(look)
        steps = np.exp(-((further[:, None] - points) ** 2) / (2 * deviation**2)) / (deviation * math.sqrt(2 * math.pi))
        mass, points = (steps @ mass) * _weights(further), further
        spent, before = spent + allowed, look
    return tuple(levels)


def _weights(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Simpson's weights of an odd number of equally spaced points."""
    weights = np.where(np.arange(len(points)) % 2, 4.0, 2.0)
    weights[[0, -1]] = 1.0
    return weights * (points[1] - points[0]) / 3


def _tail(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper tail of the standard normal distribution."""
    return np.array([0.5 * math.erfc(value / math.sqrt(2)) for value in values.tolist()])
