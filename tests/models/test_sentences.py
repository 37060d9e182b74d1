"""Sentences as a batch, and scores of classes under structures that do not fit their number."""

import numpy as np
import pytest
import torch
from structure_cases import CASES, SQUARE_CASES
from torch.nn import functional as F

from phmrun.models.sentences import ClassScores, batch_of
from phmrun.text.vocabulary import EOS, PAD


def test_a_batch_of_sentences_by_hand():
    batch = batch_of([np.array([7, 8], dtype=np.uint16), np.array([], dtype=np.uint16)])
    assert batch.tokens.tolist() == [[7, 8, EOS], [EOS, PAD, PAD]]
    assert batch.lengths.tolist() == [3, 1]
    assert batch.mask.tolist() == [[[[True, True, True]]], [[[True, False, False]]]]
    assert batch.tokens.dtype == batch.lengths.dtype == torch.int64


@pytest.mark.parametrize(("name", "options"), [*CASES, *SQUARE_CASES])
def test_any_structure_scores_three_classes(name, options):
    scores = ClassScores(16, 3, [16], structure=name, **options)
    inputs = torch.randn(5, 16)
    hidden = F.relu(F.linear(inputs, scores.maps[0].weight, scores.maps[0].bias))
    expected = F.linear(hidden, scores.maps[1].weight, scores.maps[1].bias)[:, :3]
    torch.testing.assert_close(scores(inputs), expected)
