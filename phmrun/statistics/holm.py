"""Holm's correction: the chance of any false alarm among several comparisons stays below the level.

The i-th smallest of m p-values is multiplied by m - i + 1; a later one is never smaller than an earlier one. It needs
nothing to be known of how the comparisons depend on each other, such as the dense row that all of them share.

Source: Holm, "A simple sequentially rejective multiple test procedure", 1979.
"""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values, in the order of the given ones."""
    order = sorted(range(len(p_values)), key=lambda place: p_values[place])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for rank, place in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = largest
    return adjusted
