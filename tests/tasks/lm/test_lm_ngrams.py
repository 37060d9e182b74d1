"""Modified Kneser–Ney beside a plain one of dictionaries, written from the equations."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from phmrun.tasks.lm.ngrams import KneserNey, discounts


class Plain:
    """The same by definition, one probability at a time."""

    def __init__(self, tokens, words, order, before):
        self.words, self.order = words, order
        text = [before] * (order - 1) + list(tokens)
        ends = range(order - 1, len(text))
        grams = {k: Counter(tuple(text[end - k + 1 : end + 1]) for end in ends) for k in range(1, order + 1)}
        self.counts = {order: grams[order]}
        for k in range(1, order):
            self.counts[k] = Counter(gram[1:] for gram in grams[k + 1])
        self.after = {k: defaultdict(dict) for k in self.counts}
        for k, counts in self.counts.items():
            for gram, count in counts.items():
                self.after[k][gram[:-1]][gram[-1]] = count
        self.d = {k: (0.0, *discounts(np.array([*counts.values()]))) for k, counts in self.counts.items()}

    def probability(self, word, history, k):
        if k == 0:
            return 1 / self.words
        history = tuple(history[len(history) - k + 1 :])
        lower = self.probability(word, history[1:], k - 1)
        following = self.after[k].get(history)
        if not following:
            return lower
        taken = {item: self.d[k][min(count, 3)] for item, count in following.items()}
        total = sum(following.values())
        kept = (following[word] - taken[word]) / total if word in following else 0.0
        return kept + sum(taken.values()) / total * lower


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize(("seed", "size"), [(0, 12), (1, 300)])
def test_beside_the_definition(order, seed, size):
    draw = np.random.default_rng(seed)
    train, test = draw.geometric(0.35, size).clip(0, 8), draw.integers(0, 10, 40)
    model, plain = KneserNey(train, 10, order=order, before=3), Plain(train, 10, order, 3)
    text = [3] * (order - 1) + list(test)
    expected = [
        -np.log(plain.probability(text[end], text[end - order + 1 : end], order)) for end in range(order - 1, len(text))
    ]
    np.testing.assert_allclose(model.surprisal(test), expected, rtol=1e-9)
