"""Interpolated modified Kneser–Ney over n words: what counting alone knows of a text (Chen and Goodman 1999).

    p_k(w | h) = max(c(h w) - D(c(h w)), 0) / Σ_v c(h v) + γ(h) p_{k-1}(w | h'),   p_0 = 1 / V

c counts occurrences in the highest order, and in the others the different words before h w; h' is h without its first
word; D has three values for each order, from the counts of counts; γ(h) is what they take away, over the same sum.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
UNSEEN = -1


class _Order(NamedTuple):
    """The sequences of k words of a text."""

    keys: Ids  # each as the number of its first k - 1 words, times V, and its last word; sorted
    kept: Numbers  # its count less D, over the sum of its history's counts
    left: Numbers  # γ by the number of a history; 1 for one that nothing follows


class KneserNey:
    """A model of running text ``[tokens]`` of so many different words (V) by counts; ``before`` stands before it."""

    def __init__(self, tokens: Ids, words: int, *, order: int = 5, before: int = 0) -> None:
        self.words, self.order, self.before = words, order, before
        padded = self._padded(tokens)
        real = slice(order - 1, None)  # a sequence that ends before is of the padding
        self.orders: list[_Order] = []
        history, keys, ends = np.zeros(len(padded), dtype=np.int64), np.zeros(1, dtype=np.int64), None
        for _ in range(order):
            longer, inverse = np.unique(self._key(history, padded), return_inverse=True)
            inverse = inverse.reshape(-1)
            if ends is not None:  # each different sequence of k words is one word more before one of k - 1
                places = np.unique(inverse[real], return_index=True)[1]
                self._add(keys, np.bincount(ends[real][places], minlength=len(keys)))
            keys, ends, history = longer, inverse, np.concatenate(([0], inverse[:-1]))
        self._add(keys, np.bincount(ends[real], minlength=len(keys)))  # type: ignore[index]

    def _add(self, keys: Ids, counts: Ids) -> None:
        """One order more, whose histories are the sequences of the order before."""
        histories = len(self.orders[-1].keys) if self.orders else 1
        of = keys // self.words
        taken = np.array([0.0, *discounts(counts)])[np.minimum(counts, 3)]
        total = np.bincount(of, counts, minlength=histories)
        some = np.maximum(total, 1)
        left = np.where(total > 0, np.bincount(of, taken, minlength=histories) / some, 1.0)
        self.orders.append(_Order(keys, (counts - taken) / some[of], left))

    def surprisal(self, tokens: Ids) -> Numbers:
        """-log p of every word given those before it, in nats, ``[tokens]``."""
        padded = self._padded(tokens)
        history = np.zeros(len(padded), dtype=np.int64)
        shares = np.full(len(padded), 1.0 / self.words)
        for order in self.orders:
            known = history >= 0
            wanted = np.where(known, self._key(history, padded), UNSEEN)
            places = np.minimum(np.searchsorted(order.keys, wanted), len(order.keys) - 1)
            found = known & (order.keys[places] == wanted)
            left = np.where(known, order.left[np.where(known, history, 0)], 1.0)
            shares = left * shares + np.where(found, order.kept[places], 0.0)
            history = np.concatenate(([UNSEEN], np.where(found, places, UNSEEN)[:-1]))
        return np.asarray(-np.log(shares[self.order - 1 :]), dtype=np.float64)

    def _padded(self, tokens: Ids) -> Ids:
        return np.concatenate([np.full(self.order - 1, self.before, dtype=np.int64), np.asarray(tokens, np.int64)])

    def _key(self, history: Ids, padded: Ids) -> Ids:
        """The sequences of one more word than ``history``, which ends one place earlier."""
        return history * self.words + padded


def discounts(counts: Ids) -> tuple[float, float, float]:
    """D of sequences that are counted once, twice, more often; ½, 1, 1½ where there is too little to tell."""
    n1, n2, n3, n4 = (int((counts == number).sum()) for number in (1, 2, 3, 4))
    if not all((n1, n2, n3, n4)):
        return 0.5, 1.0, 1.5
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if all(0 <= d <= number for number, d in enumerate(found, 1)) else (0.5, 1.0, 1.5)
