"""The classifying LSTM: each sentence read alone by ``nn.LSTM``, pooled by hand."""

import numpy as np
import pytest
import torch
from built_networks import built
from torch.nn import functional as F

from phmrun.layers import folded
from phmrun.models import sentences as lstm_classifier
from phmrun.models.sentences import LSTMClassifier, batch_of
from phmrun.text.vocabulary import EOS

ROWS = ([[4, 5, 6], [7]], [[8, 9], [4, 6, 10, 11]])
PROJECTIVE = {"structure": "projective", "width": 4}
FIRST, SECOND = (batch_of([np.array(row) for row in rows]) for rows in ROWS)


def build(**options):
    torch.manual_seed(0)
    return built(LSTMClassifier, 12, 3, width=8, hidden=8, mlp=6, **options).double().eval()


def by_hand(network, *sides):
    """Logits from one sentence at a time, nothing padded."""
    lstm, table = network.lstm.plain(), network.embedding.weight
    summaries = []
    for sentences in zip(*sides, strict=True):
        pooled = []
        for words in sentences:
            outputs = lstm(table[[*words, EOS]][None])[0][0]
            pooled.append((outputs.max(0).values, outputs.mean(0)))
        summaries.append(torch.cat([vector for pair in pooled for vector in pair]))
    if network.matching == "full":
        half = summaries[0].numel() // 2
        summaries = [torch.cat([row, (row[:half] - row[half:]).abs(), row[:half] * row[half:]]) for row in summaries]
    hidden = torch.stack(summaries)
    *inner, last = network.output.maps
    for linear in inner:
        hidden = F.relu(F.linear(hidden, linear.weight, linear.bias))
    return F.linear(hidden, last.weight, last.bias)[:, :3]


@torch.no_grad()
@pytest.mark.parametrize("layer", [{}, {"structure": "phm", "n": 2}])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"matching": "full"},
        {"gate_maps": "stacked"},
        {"bidirectional": True},
        {"layers": 2},
        {"mlp_layers": 0},
        {"embedding": PROJECTIVE},
    ],
)
def test_logits_of_pairs(layer, options):
    network = build(layer=layer, **options)
    torch.testing.assert_close(network(FIRST, SECOND), by_hand(network, *ROWS))
    torch.testing.assert_close(folded(network)(FIRST, SECOND), by_hand(network, *ROWS))


@torch.no_grad()
def test_every_part_takes_a_structure():
    structure = {"structure": "phm", "n": 2}
    network = build(layer=structure, embedding=structure, output=structure)
    assert network.output.maps[-1].weight.shape == (4, 6)
    logits = network(FIRST, SECOND)
    assert logits.shape == (2, 3)
    torch.testing.assert_close(logits, by_hand(network, *ROWS))


def test_dropout_of_words_drops_whole_vectors(monkeypatch):
    network = build(word_dropout=0.5).train()
    seen = []
    original = lstm_classifier.outputs
    monkeypatch.setattr(
        lstm_classifier,
        "outputs",
        lambda lstm, inputs, lengths: (seen.append(inputs.flatten(0, 1)), original(lstm, inputs, lengths))[1],
    )
    torch.manual_seed(1)
    network(FIRST, SECOND)
    dropped = (seen[0] == 0).all(1)
    assert 0 < int(dropped.sum()) < len(dropped)
    assert bool((seen[0] != 0).all(1)[~dropped].all())
    network.eval()(FIRST, SECOND)
    assert not bool((seen[1] == 0).any())
