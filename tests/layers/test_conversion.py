"""Existing models with other structures: what is replaced, what stays tied, and the way back."""

import logging

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import Linear, conversion_report, convert, folded, for_inference


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


@pytest.mark.parametrize("structure", ["dense", "added"])
@torch.no_grad()
def test_a_padding_row_keeps_its_values(model, tokens, structure):
    model.table.weight[0] = 1.0
    copy = convert(model, structure, names=("table", "output"), weights="nearest")
    torch.testing.assert_close(copy(tokens), model(tokens))


def test_what_cannot_be_converted_is_said_at_once(model):
    model.projected = nn.LSTM(8, 8, proj_size=4)
    model.sparse = nn.Embedding(8, 8, sparse=True)
    with pytest.raises(PhmrunError, match=r"(?s)6 of 6 .*narrow: .*8×16.*projected: .*proj_size.*sparse: ") as caught:
        convert(model, "circulant")
    assert "but=" in caught.value.hint
    with pytest.raises(PhmrunError, match="n") as caught:
        convert(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), "low-rank", n=4)
    assert "rank" in caught.value.valid  # one mistake is said once, with what is valid
    with pytest.raises(PhmrunError, match="kind of weights"):
        convert(model, "low-rank", weights="near")


class Conv1D(nn.Module):
    """The linear map of GPT-2 in transformers, whose weight is [in, out]."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf, self.nx = nf, nx
        self.weight = nn.Parameter(torch.randn(nx, nf))
        self.bias = nn.Parameter(torch.randn(nf))

    def forward(self, inputs):
        return inputs @ self.weight + self.bias


@torch.no_grad()
def test_transposed_linear_maps_are_converted():
    plain = nn.Sequential(Conv1D(12, 8))
    copy = convert(plain, "dense", weights="nearest")
    inputs = torch.randn(3, 8)
    torch.testing.assert_close(copy(inputs), plain(inputs))
    assert convert(plain, "phm", n=4)[0].weight.std() < 0.1


@pytest.mark.parametrize("sizes", [{}, {"kdim": 12, "vdim": 4}])
@torch.no_grad()
def test_attention_s_maps_are_converted_and_folded(sizes):
    plain = nn.Sequential(nn.MultiheadAttention(8, 2, batch_first=True, **sizes)).eval()
    copy = convert(plain, "dense", weights="nearest")
    query = torch.randn(2, 3, 8)
    key, value = (torch.randn(2, 5, sizes.get(side, 8)) for side in ("kdim", "vdim"))
    expected = plain[0](query, key, value)[0]
    torch.testing.assert_close(copy[0](query, key, value)[0], expected)
    small = convert(plain, "phm", n=2)
    assert sum(parameter.numel() for parameter in small.parameters()) < sum(p.numel() for p in plain.parameters())
    for other in (folded(small), for_inference(small, "factored")):
        torch.testing.assert_close(other[0](query, key, value)[0], small[0](query, key, value)[0])
    assert type(folded(small)[0]) is nn.MultiheadAttention


def test_report_names_what_was_left_and_why(caplog):
    model = nn.Sequential(nn.Conv3d(3, 8, 3), nn.Linear(8, 8), nn.Linear(8, 4), nn.LayerNorm(4))
    with caplog.at_level(logging.WARNING, "phmrun"):
        report = conversion_report(convert(model, "phm", n=4, but="2"))
    assert [(layer.name, layer.kind) for layer in report.converted] == [("1", "Linear")]
    assert [(layer.name, layer.reason, layer.parameters) for layer in report.left] == [
        ("0", "not supported", 3 * 8 * 27 + 8),
        ("2", "excluded by `but`", 8 * 4 + 4),
        ("3", "vectors only", 8),
    ]
    assert report.before == sum(parameter.numel() for parameter in model.parameters())
    assert report.before - report.after == 64 - (4 * 4 * 4 + 4 * 2 * 2)  # the factors of so small a map are larger
    (record,) = caplog.records
    assert "left: 0 (Conv3d: not supported)" in record.getMessage()
    assert "LayerNorm left" in str(report)
    with pytest.raises(PhmrunError, match="was not converted"):
        conversion_report(model)


def test_biases_stay_tied():
    model = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8))
    model[1].bias = model[0].bias
    copy = convert(model, "phm", n=2)
    assert copy[0].bias is copy[1].bias
