"""All-pairs test grids: few rows in which every pair of values of two axes occurs."""

from collections.abc import Callable, Sequence
from itertools import combinations, product
from typing import Any


def pairwise(axes: Sequence[Sequence[Any]], valid: Callable[..., bool] = lambda *values: True) -> list[tuple[Any, ...]]:
    """Rows of a grid that together have every pair of values that a valid row of the whole product has.

    Greedy: the next row is that with the most new pairs, the first of them in the order of the product.

    Args:
        axes: Values of each axis.
        valid: True if a row of the product can be tested.
    """
    grid = [row for row in product(*(range(len(axis)) for axis in axes)) if valid(*_values(axes, row))]
    pairs = {row: {((i, row[i]), (j, row[j])) for i, j in combinations(range(len(axes)), 2)} for row in grid}
    missing = set().union(*pairs.values())
    rows = []
    while missing:
        best = max(pairs, key=lambda row: len(pairs[row]))
        rows.append(best)
        missing -= pairs[best]
        pairs = {row: left for row, old in pairs.items() if (left := old & missing)}
    return [_values(axes, row) for row in sorted(rows)]


def _values(axes: Sequence[Sequence[Any]], row: Sequence[int]) -> tuple[Any, ...]:
    return tuple(axis[index] for axis, index in zip(axes, row, strict=True))
