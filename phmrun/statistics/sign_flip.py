"""The exact sign-flip test of paired differences.

Seed by seed, a difference d_s would as well have had the other sign if the two systems did not differ. The p-value is
the share of all 2^n assignments of signs whose |Σ ±d_s| is at least the measured |Σ d_s|; the smallest that n seeds can
give is 2 / 2^n: 3 seeds 0.25, 5 seeds 0.0625, 6 seeds 0.031.

Source: Fisher, "The design of experiments", 1935, section 21; Pitman 1937.
"""

from collections.abc import Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

MOST_EXACT = 20  # differences whose signs are all enumerated
DRAWS = 100_000  # assignments of signs that are drawn where there are more
SEED = 12345
_TIE = 1e-12


class SignFlip(NamedTuple):
    """What the test says."""

    p: float  # how often as much would be seen without a difference, in either direction
    smallest: float  # the smallest p that so many differences can give
    n: int  # how many differences there are


def sign_flip(differences: Sequence[float]) -> SignFlip:
    """The test of paired differences, one for each seed; a ``ValueError`` says that there is none."""
    if not len(differences):
        raise ValueError("the sign-flip test needs at least one difference")
    values = np.asarray(differences, dtype=np.float64)
    count = len(values)
    measured = abs(values.sum())
    if count <= MOST_EXACT:
        half = np.array(list(product((1.0, -1.0), repeat=count - 1)), dtype=np.float64).reshape(-1, count - 1)
        sums = values[0] + half @ values[1:]  # the other half has the opposite sums
        extreme, total = np.count_nonzero(np.abs(sums) >= measured - _TIE * (1 + measured)), len(sums)
    else:
        signs = np.random.default_rng(SEED).choice((1.0, -1.0), size=(DRAWS, count))
        extreme = 1 + np.count_nonzero(np.abs(signs @ values) >= measured - _TIE * (1 + measured))
        total = DRAWS + 1
    return SignFlip(float(extreme / total), smallest_p(count), count)


def smallest_p(count: int) -> float:
    """The smallest p-value that a two-sided test of so many differences can give."""
    return min(1.0, 2.0 / 2**count)
