"""The sentence-pair network: each sentence read alone by ``nn.LSTM``, pooled by hand."""

import pytest
import torch
from torch.nn import functional as F

from phmrun.models.sentence_pair import SentencePairClassifier

FIRST, FIRST_LENGTHS = torch.tensor([[4, 5, 6], [7, 0, 0]]), torch.tensor([3, 1])
SECOND, SECOND_LENGTHS = torch.tensor([[8, 9], [4, 6]]), torch.tensor([2, 2])


def build(**options):
    torch.manual_seed(0)
    return SentencePairClassifier(12, 3, width=8, hidden=8, mlp=6, **options).double().eval()


@torch.no_grad()
@pytest.mark.parametrize("layer", [{}, {"structure": "phm", "n": 2}])
@pytest.mark.parametrize("maps", ["gate", "stacked"])
def test_logits(layer, maps):
    network = build(layer=layer, maps=maps)
    lstm = network.lstm.plain()
    rows = []
    for row in range(2):
        pooled = []
        for tokens, lengths in ((FIRST, FIRST_LENGTHS), (SECOND, SECOND_LENGTHS)):
            outputs = lstm(network.embedding.weight[tokens[row, : lengths[row]]][None])[0][0]
            pooled += [outputs.max(0).values, outputs.mean(0)]
        rows.append(torch.cat(pooled))
    hidden = torch.stack(rows)
    for linear in network.mlp:
        hidden = F.relu(F.linear(hidden, linear.weight, linear.bias))
    expected = F.linear(hidden, network.output.weight, network.output.bias)
    torch.testing.assert_close(network(FIRST, FIRST_LENGTHS, SECOND, SECOND_LENGTHS), expected)


def test_word_vectors_stay_unless_asked():
    for train in (False, True):
        network = build(train_embedding=train)
        network(FIRST, FIRST_LENGTHS, SECOND, SECOND_LENGTHS).sum().backward()
        learnt = {name for name, parameter in network.named_parameters() if parameter.grad is not None}
        assert any(name.startswith("embedding") for name in learnt) == train
        assert all(name in learnt for name, _ in network.named_parameters() if not name.startswith("embedding"))
