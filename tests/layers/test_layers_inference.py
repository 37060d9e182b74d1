"""Copies for inference: same outputs, plain modules, tied what was tied, and the model as it was."""

import copy

import pytest
import torch
from built_networks import built
from structure_cases import CASES
from torch import nn

from phmrun.layers import Embedding, FeedForward, Linear, MultiheadAttention, Structure, folded, for_inference
from phmrun.layers.inference import FEW_TOKENS, PackedLinear, resolve_application
from phmrun.models.transformer import Transformer

SOURCE, TARGET = torch.tensor([[4, 5, 6, 3], [7, 8, 3, 0]]), torch.tensor([[2, 9, 10], [2, 11, 0]])


class Network(nn.Module):
    """A little of everything, tied and untied."""

    def __init__(self, name="phm", padding=None, **options):
        super().__init__()
        self.table = Embedding(32, 16, padding, structure=name, **options)
        self.attention = MultiheadAttention(16, 2, structure=name, **options)
        self.feedforward = nn.Sequential(FeedForward(16, 32, 0.5, structure=name, **options), nn.LayerNorm(16))
        self.tied = Linear(16, 32, structure=self.table.structure)
        self.twice = self.tied

    def forward(self, tokens):
        hidden = self.feedforward(self.attention(self.table(tokens), causal=True))
        return self.tied(hidden) + self.twice(hidden)


TOKENS = torch.tensor([[1, 0, 31, 7]])


@pytest.mark.parametrize("padding", [None, 0])
@pytest.mark.parametrize("application", ["dense", "factored"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_outputs_are_the_same_and_the_model_is_unchanged(name, options, application, padding):
    torch.manual_seed(0)
    network = Network(name, padding, **options).double()  # sums of another order differ in single precision
    before = copy.deepcopy(network.state_dict())
    plain = for_inference(network, application)
    torch.testing.assert_close(plain(TOKENS), network.eval()(TOKENS))
    assert not plain.training
    assert not any(parameter.requires_grad for parameter in plain.parameters())
    assert all(parameter.requires_grad for parameter in network.parameters())
    assert before.keys() == network.state_dict().keys()
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    with torch.no_grad():
        for parameter in plain.parameters():
            parameter.zero_()
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


@pytest.mark.parametrize("padding", [None, 0])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_folding_leaves_plain_modules_and_tied_tables_tied(name, options, padding):
    plain = folded(Network(name, padding, **options))
    assert not [
        module for module in plain.modules() if isinstance(module, (Structure, Linear, Embedding, PackedLinear))
    ]
    assert type(plain.table) is nn.Embedding
    assert type(plain.tied) is nn.Linear
    assert plain.twice is plain.tied
    if padding is None:
        assert plain.tied.weight is plain.table.weight
    else:
        assert not plain.table.weight[padding].any()
        assert plain.tied.weight[padding].any()


@pytest.mark.parametrize("maps", ["joint", "separate"])
def test_a_factored_transformer_does_the_same(maps):
    torch.manual_seed(0)
    sizes = {"width": 16, "feedforward": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    network = built(Transformer, 16, 16, **sizes, attention_maps=maps, layer={"structure": "phm", "n": 2}).eval()
    expected = network(SOURCE, None, TARGET)
    for plain in (for_inference(network, "factored"), for_inference(network, "dense", decoder="factored")):
        assert any(isinstance(module, PackedLinear) for module in plain.decoder.modules())
        torch.testing.assert_close(plain(SOURCE, None, TARGET), expected)


@pytest.mark.parametrize(
    ("sizes", "structure", "kept"),
    [
        ((256, 1024), {"structure": "phm", "n": 4}, PackedLinear),
        ((256, 1024), {"structure": "phm", "n": 2}, nn.Linear),
        ((256, 256), {"structure": "phm", "n": 8}, nn.Linear),
        ((256, 1024), {"structure": "guided", "of": "low-rank"}, PackedLinear),
        ((512, 512), {"structure": "monarch"}, nn.Linear),
        ((512, 2048), {"structure": "monarch"}, PackedLinear),
        ((512, 2048), {"structure": "block-circulant"}, nn.Linear),
    ],
)
def test_for_a_few_tokens_the_size_decides(sizes, structure, kept):
    layer = Linear(*sizes, **structure)
    assert type(for_inference(layer, "by-size")) is kept
    assert type(for_inference(layer, "factored")) is PackedLinear


def test_the_application_is_decided_by_the_tokens_of_a_call():
    assert resolve_application("auto", FEW_TOKENS) == "by-size"
    assert resolve_application("auto", FEW_TOKENS + 1) == "dense"
    assert resolve_application("dense", 1) == "dense"
    assert resolve_application("factored", 10**6) == "factored"
