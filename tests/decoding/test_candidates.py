"""The candidates against a plain sort, bit for bit, ties included."""

import pytest
import torch

from phmrun.decoding import candidates
from phmrun.decoding.candidates import Candidates, log_probabilities, only_token, true_rows


def top_candidates(log_probs, totals, count):
    """Scores, parent beams and tokens of the candidates, ties broken."""
    best = Candidates(log_probs, totals, count)
    best.break_ties(true_rows(best.tied.tolist()))
    return best.parts()


def sorted_candidates(log_probs, totals, count):
    """Python's sort over every continuation; equal scores by beam, then token."""
    rows = []
    for sentence, sums in zip(log_probs, totals, strict=True):
        every = [
            (-score, beam, token)
            for beam, scores in enumerate((sentence + sums.unsqueeze(-1)).tolist())
            for token, score in enumerate(scores)
        ]
        rows.append(sorted(every)[:count])
    return rows


@pytest.fixture(params=["by blocks", "in one"])
def search(request, monkeypatch):
    """Both ways to search."""
    monkeypatch.setattr(candidates, "_FEW", 0 if request.param == "by blocks" else 1_000_000)


@pytest.mark.parametrize("vocabulary", [5, 256, 300, 449, 1024])
@pytest.mark.parametrize("levels", [None, 2, 40])
def test_equals_a_sort_with_ties(vocabulary, levels, search):
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        beam, count = [(1, 2), (3, 6), (5, 10)][seed % 3]
        log_probs = torch.randn(4, beam, vocabulary, generator=generator)
        totals = torch.randn(4, beam, generator=generator)
        if levels:
            log_probs = (log_probs * levels / 6).round()
            totals = totals.round()
        count = min(count, beam * vocabulary)
        scores, parents, tokens = top_candidates(log_probs, totals, count)
        expected = sorted_candidates(log_probs, totals, count)
        actual = [
            [(-score, parent, token) for score, parent, token in zip(*row, strict=True)]
            for row in zip(scores.tolist(), parents.tolist(), tokens.tolist(), strict=True)
        ]
        assert actual == expected


def test_the_best_are_found_wherever_they_are(search):
    vocabulary = 300
    for place in (0, 63, 64, 255, 256, 299):
        log_probs = torch.full((1, 2, vocabulary), -5.0)
        log_probs[0, 1, place] = -1.0
        log_probs[0, 0, place] = -2.0
        scores, parents, tokens = top_candidates(log_probs, torch.zeros(1, 2), 2)
        assert scores.tolist() == [[-1.0, -2.0]]
        assert parents.tolist() == [[1, 0]]
        assert tokens.tolist() == [[place, place]]


def test_log_probabilities_are_over_the_whole_vocabulary():
    logits = torch.randn(2, 3, 11, dtype=torch.float64)
    before = logits.clone()
    result = log_probabilities(logits, torch.tensor([0, 2]))
    assert torch.equal(logits, before)
    assert result[..., [0, 2]].eq(float("-inf")).all()
    expected = logits - logits.exp().sum(-1, keepdim=True).log()
    torch.testing.assert_close(result[..., 3:], expected[..., 3:])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_normalised_in_single(dtype):
    result = log_probabilities(torch.randn(1, 1, 2000).to(dtype), torch.tensor([0]))
    assert result.dtype == torch.float32


def test_only_token_keeps_one_token_of_some_rows():
    log_probs = torch.randn(3, 2, 5)
    before = log_probs.clone()
    only_token(log_probs, torch.tensor([True, False, True]), 3)
    assert torch.equal(log_probs[1], before[1])
    assert torch.equal(log_probs[..., 3], before[..., 3])
    assert log_probs[[0, 2]].isinf().sum() == 2 * 2 * 4
