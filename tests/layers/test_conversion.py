"""Existing models with other structures: what is replaced, what stays tied, and the way back."""

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import LSTM, Embedding, Linear, convert, folded


class Reader(nn.Module):
    """A language model whose output is its table."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(12, 8, padding_idx=0)
        self.lstm = nn.LSTM(8, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.narrow = nn.Linear(16, 8)
        self.output = nn.Linear(8, 12)
        self.output.weight = self.table.weight

    def forward(self, tokens):
        return self.output(self.narrow(self.lstm(self.table(tokens))[0]))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Reader().eval()


@pytest.fixture
def tokens():
    return torch.tensor([[3, 4, 0, 7, 11], [1, 2, 3, 5, 9]])


@torch.no_grad()
def test_the_nearest_dense_weights_are_the_model_s_own(model, tokens):
    copy = convert(model, "dense", weights="nearest")
    assert [type(part) for part in copy.children()] == [Embedding, LSTM, Linear, Linear]
    torch.testing.assert_close(copy(tokens), model(tokens))
    assert type(model.narrow) is nn.Linear


@torch.no_grad()
def test_a_structure_and_the_way_back(model, tokens):
    copy = convert(model, "phm", n=4)
    assert copy.output.structure is copy.table.structure
    a, b = 4 * 4 * 4, 4 * (12 // 4) * (8 // 4)
    assert sum(parameter.numel() for parameter in copy.table.parameters()) == a + b
    plain = folded(copy)
    assert [type(part) for part in plain.children()] == [type(part) for part in model.children()]
    torch.testing.assert_close(plain(tokens), copy(tokens))


def test_patterns_choose(model):
    copy = convert(model, "phm", n=2, names=["*"], but="lstm")
    assert isinstance(copy.lstm, nn.LSTM)
    assert isinstance(convert(model, "phm", n=2, names="narrow").narrow, Linear)


def test_training_and_freezing_stay_as_they_are(model):
    model.narrow.requires_grad_(False)
    copy = convert(model.train(), "low-rank", rank=2, names=("narrow", "lstm"))
    assert not any(parameter.requires_grad for parameter in copy.narrow.parameters())
    assert all(parameter.requires_grad for parameter in copy.lstm.parameters())
    assert copy.lstm.training


@torch.no_grad()
def test_attention_s_own_map_is_reached():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    copy = convert(layer, "dense", weights="nearest")
    assert isinstance(copy.self_attn.out_proj, Linear)
    inputs = torch.randn(2, 3, 8)
    torch.testing.assert_close(copy(inputs), layer(inputs))


def test_what_cannot_be_converted_is_said_at_once(model):
    model.projected = nn.LSTM(8, 8, proj_size=4)
    model.sparse = nn.Embedding(8, 8, sparse=True)
    with pytest.raises(PhmrunError, match=r"(?s)6 of 6 .*narrow: .*8×16.*projected: .*proj_size.*sparse: ") as caught:
        convert(model, "circulant")
    assert "but=" in caught.value.hint


def test_one_of_two_tied_layers(model):
    with pytest.raises(PhmrunError, match=r"output: its weight is tied to table\.weight, which is not converted"):
        convert(model, "phm", n=4, names="output")


def test_no_such_layer(model):
    with pytest.raises(PhmrunError, match="is called narow") as caught:
        convert(model, "phm", names="narow")
    assert "narrow" in caught.value.hint
