"""Reproducible random choices: the same on every platform and every Python version."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """A stream of choices that is a pure function of its key.

    Only ``Random.random`` is used: of the standard generator's methods it alone is promised to give the same values in
    every version.
    """

    def __init__(self, key: str) -> None:
        self._random = Random(key).random

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self._random() < probability

    def of(self, options: Sequence[T]) -> T:
        """One of the options, each as likely as the next."""
        return options[int(self._random() * len(options))]

    def early(self, options: Sequence[T]) -> T:
        """One of the options, the earlier ones more likely."""
        return options[int(self._random() ** 1.2 * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """One of the options by their weights."""
        point = self._random() * sum(weight for _, weight in options)
        for option, weight in options:
            point -= weight
            if point < 0:
                return option
        return options[-1][0]

    def order(self, options: Sequence[tuple[T, float]]) -> list[T]:
        """All options in a random order, those of greater weight sooner."""
        left = list(options)
        ordered: list[T] = []
        while left:
            option = self.weighted([(index, weight) for index, (_, weight) in enumerate(left)])
            ordered.append(left.pop(option)[0])
        return ordered
