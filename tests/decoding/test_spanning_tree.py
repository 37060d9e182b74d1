"""Spanning trees against a search through all trees, and against one search per root on longer sentences."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.decoding.spanning_tree import _best_tree, spanning_trees

MOST_WORDS = 6


def comes_to_the_root(heads):
    for word in range(1, len(heads)):
        for _ in heads:
            word = heads[word]
        if word:
            return False
    return True


def every_tree(words):
    """All trees over so many words and the root, which has one child, ``[trees, words + 1]``."""
    choices = [(0,), *([head for head in range(words + 1) if head != word] for word in range(1, words + 1))]
    return np.array(
        [heads for heads in itertools.product(*choices) if comes_to_the_root(heads) and heads[1:].count(0) <= 1]
    )


TREES = {words: every_tree(words) for words in range(MOST_WORDS + 1)}


def totals(scores, trees):
    """Impossible arcs, and the sum of all other scores, of each tree."""
    taken = scores[np.arange(1, scores.shape[1]), trees[:, 1:]]
    impossible = np.isneginf(taken)
    return impossible.sum(1), np.where(impossible, 0.0, taken).sum(1)


def best_total(scores):
    """Fewest impossible arcs over all trees, and the highest sum of the other arcs."""
    trees = TREES[len(scores) - 1]
    impossible, sums = totals(scores, trees)
    return impossible.min(), sums[impossible == impossible.min()].max()


def check(scores, heads):
    """Assert that the heads form a tree with the highest total."""
    assert len(heads) == len(scores)
    assert heads[0] == 0
    assert comes_to_the_root(heads)
    if len(heads) > 1:
        assert heads[1:].count(0) == 1
    (impossible,), (total,) = totals(scores, np.array([heads]))
    best_impossible, best = best_total(scores)
    assert impossible == best_impossible
    assert total == pytest.approx(best, rel=1e-12, abs=1e-9)


@pytest.mark.parametrize("words", range(MOST_WORDS + 1))
def test_equals_a_search_through_all_trees(words):
    generator = torch.Generator().manual_seed(words)
    scores = torch.randn(60, words + 1, words + 1, generator=generator, dtype=torch.float64)
    scores[20:40] *= 100
    scores[40:50, :, 0] += 3  # many roots
    scores[50:, :, 0] += 1e6
    actual = spanning_trees(scores, torch.full((60,), words + 1))
    for sentence, heads in zip(scores.numpy(), actual.tolist(), strict=True):
        check(sentence, heads)
        check(sentence, _best_tree(sentence))  # also where the first look would do


@given(st.data(), st.integers(1, MOST_WORDS))
@settings(max_examples=150, deadline=None)
def test_ties_and_impossible_arcs(data, words):
    """Small whole numbers, so that sums are often equal, and minus infinity anywhere."""
    values = st.sampled_from([-math.inf, -2.0, -1.0, 0.0, 1.0, 2.0])
    size = words + 1
    flat = data.draw(st.lists(values, min_size=size * size, max_size=size * size))
    scores = torch.tensor(flat, dtype=torch.float64).view(1, size, size)
    (heads,) = spanning_trees(scores, torch.tensor([size])).tolist()
    check(scores[0].numpy(), heads)


def test_a_sentence_does_not_depend_on_the_others():
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([1, 2, 9, 4, 9, 6, 3])
    scores = torch.randn(7, 9, 9, generator=generator).mul(2).round()  # with ties
    together = spanning_trees(scores, lengths)
    for number, length in enumerate(lengths.tolist()):
        alone = spanning_trees(scores[number, None, :length, :length], lengths[number, None])
        assert torch.equal(together[number, :length], alone[0])
        assert not together[number, length:].any()
    beyond = torch.arange(9) >= lengths[:, None]
    scores.masked_fill_(beyond[:, None, :] | beyond[:, :, None], math.inf)
    assert torch.equal(spanning_trees(scores, lengths), together)


@pytest.mark.parametrize("words", [12, 40])
def test_long_sentences_equal_the_best_of_all_roots(words):
    generator = torch.Generator().manual_seed(words)
    scores = torch.randn(4, words + 1, words + 1, generator=generator, dtype=torch.float64)
    scores[2:, :, 0] += 1
    lengths = torch.full((4,), words + 1)
    actual = spanning_trees(scores, lengths)
    candidates = []
    for root in range(1, words + 1):
        first = scores.clone()
        first[:, :, 0] = -math.inf
        first[:, root, 0] = scores[:, root, 0]
        heads = spanning_trees(first, lengths)
        assert (heads == 0).sum(1).tolist() == [2] * 4
        candidates.append(scores.gather(2, heads.unsqueeze(-1))[:, 1:].sum((1, 2)))
    best = torch.stack(candidates).amax(0)
    total = scores.gather(2, actual.unsqueeze(-1))[:, 1:].sum((1, 2))
    torch.testing.assert_close(total, best)
    assert all(comes_to_the_root(heads) for heads in actual.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_other_types_and_scores_that_need_gradients(dtype):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(8, 6, 6, generator=generator).to(dtype).requires_grad_()
    actual = spanning_trees(scores, torch.full((8,), 6))
    assert actual.dtype == torch.long
    for sentence, heads in zip(scores.detach().double().numpy(), actual.tolist(), strict=True):
        check(sentence, heads)
