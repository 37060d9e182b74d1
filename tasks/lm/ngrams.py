"""Interpolated modified Kneser–Ney n-gram model (Chen and Goodman 1999).

    p_k(w | h) = max(c(h w) - D(c(h w)), 0) / Σ_v c(h v) + γ(h) p_{k-1}(w | h'),   p_0 = 1 / V

c counts occurrences in the highest order, and the distinct words before h w in the others. h' is h without its first
word. D has three values for each order, from the counts of counts. γ(h) is the discounted mass, divided by the same
sum.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Numbers = NDArray[np.float64]
UNSEEN = -1


class _Order(NamedTuple):
    """Sequences of k words of a text."""

    keys: Ids  # index of its first k - 1 words, times V, plus its last word; sorted
    kept: Numbers  # discounted count / sum of its history's counts
    left: Numbers  # γ by index of a history; 1 for a history without continuations


class KneserNey:
    """N-gram model of running text.

    Args:
        tokens: Training text ``[tokens]``.
        words: V, number of distinct words.
        order: n, words of the longest sequences.
        before: Word that stands before the text.
    """

    def __init__(self, tokens: Ids, words: int, *, order: int = 5, before: int = 0) -> None:
        self.words, self.order, self.before = words, order, before
        padded = self._padded(tokens)
        real = slice(order - 1, None)  # sequences that end earlier are padding
        self.orders: list[_Order] = []
        history, keys, ends = np.zeros(len(padded), dtype=np.int64), np.zeros(1, dtype=np.int64), None
        for _ in range(order):
            longer, inverse = np.unique(self._key(history, padded), return_inverse=True)
            if ends is not None:  # each distinct sequence of k words adds one word before a sequence of k - 1
                places = np.unique(inverse[real], return_index=True)[1]
                self._add(keys, np.bincount(ends[real][places], minlength=len(keys)))
            keys, ends, history = longer, inverse, np.concatenate(([0], inverse[:-1]))
        self._add(keys, np.bincount(ends[real], minlength=len(keys)))  # type: ignore[index]

    def _add(self, keys: Ids, counts: Ids) -> None:
        """Append the next order, with smoothed counts of its sequences.

        Keys are index of the history (in the order before) · words + word; ``counts`` are theirs. Each sequence keeps
        its discounted share of its history; the rest of a history goes to the order before.
        """
        histories = len(self.orders[-1].keys) if self.orders else 1
        histories_of = keys // self.words
        taken = np.array([0.0, *discounts(counts)])[np.minimum(counts, 3)]
        total = np.bincount(histories_of, counts, minlength=histories)
        some = np.maximum(total, 1)
        left = np.where(total > 0, np.bincount(histories_of, taken, minlength=histories) / some, 1.0)
        self.orders.append(_Order(keys, (counts - taken) / some[histories_of], left))

    def surprisal(self, tokens: Ids) -> Numbers:
        """Return -log p of every word, in nats.

        It depends on the words before it. Shapes: ``[tokens] -> [tokens]``. ``before`` precedes the text. Nothing is
        learned from it.
        """
        padded = self._padded(tokens)
        history = np.zeros(len(padded), dtype=np.int64)
        shares = np.full(len(padded), 1.0 / self.words)
        for order in self.orders:
            seen_history = history >= 0
            wanted = np.where(seen_history, self._key(history, padded), UNSEEN)
            places = np.minimum(np.searchsorted(order.keys, wanted), len(order.keys) - 1)
            seen = seen_history & (order.keys[places] == wanted)
            left = np.where(seen_history, order.left[np.where(seen_history, history, 0)], 1.0)
            shares = left * shares + np.where(seen, order.kept[places], 0.0)
            history = np.concatenate(([UNSEEN], np.where(seen, places, UNSEEN)[:-1]))
        return np.asarray(-np.log(shares[self.order - 1 :]), dtype=np.float64)

    def _padded(self, tokens: Ids) -> Ids:
        """Return a text after ``order - 1`` times the word ``before``."""
        return np.concatenate([np.full(self.order - 1, self.before, dtype=np.int64), np.asarray(tokens, np.int64)])

    def _key(self, history: Ids, padded: Ids) -> Ids:
        """Return the keys of sequences longer by a word.

        They are ``history`` · V + the word at each place.
        """
        return history * self.words + padded


def discounts(counts: Ids) -> tuple[float, float, float]:
    """Return D for counts of 1, 2 and more.

    They are Chen and Goodman's estimates; ½, 1, 1½ if a count of counts is 0 or a discount would be out of range.
    """
    n1, n2, n3, n4 = (int((counts == number).sum()) for number in (1, 2, 3, 4))
    if not all((n1, n2, n3, n4)):
        return 0.5, 1.0, 1.5
    y = n1 / (n1 + 2 * n2)
    values = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return values if all(0 <= d <= number for number, d in enumerate(values, 1)) else (0.5, 1.0, 1.5)
