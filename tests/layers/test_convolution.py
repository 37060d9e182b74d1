"""Convolutions over structures: beside torch's convolution with the folded weight, in every geometry."""

import itertools

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import conversion_report, convert, folded, load, merge, save
from phmrun.layers.convolution import Convolution

GEOMETRIES = [
    {},
    {"stride": 2},
    {"padding": 1},
    {"padding": "same"},
    {"dilation": 2, "padding": 2},
    {"groups": 2},
    {"groups": 4, "stride": 2, "padding": 2, "bias": False},
    {"padding": 1, "padding_mode": "circular"},
    {"padding": 2, "padding_mode": "reflect"},
]
KINDS = [("phm", {"n": 2}), ("low-rank", {"rank": 2}), ("monarch", {}), ("kronecker", {"rank": 2})]


def inputs_of(kind, dtype=torch.float32):
    size = {nn.Conv1d: (2, 8, 12), nn.Conv2d: (2, 8, 12, 11)}[kind]
    return torch.randn(*size, dtype=dtype)


@pytest.mark.parametrize(("kind", "geometry"), list(itertools.product((nn.Conv1d, nn.Conv2d), GEOMETRIES)))
def test_convolution_equals_torch_s_with_the_folded_weight(kind, geometry):
    torch.manual_seed(0)
    plain = nn.Sequential(kind(8, 16, 3, **geometry)).double()
    inputs = inputs_of(kind, torch.float64)
    nearest = convert(plain, "dense", weights="nearest")
    torch.testing.assert_close(nearest(inputs), plain(inputs))
    for structure, options in KINDS:
        model = convert(plain, structure, **options)
        layer = model[0]
        assert isinstance(layer, Convolution)
        expected = layer.weight.new_zeros(layer.weight.shape)
        expected.copy_(torch.cat([part.materialize() for part in layer.maps]).view(expected.shape))
        torch.testing.assert_close(layer.weight, expected)
        dense = kind(8, 16, 3, **geometry).double()
        dense.weight.data.copy_(layer.weight)
        if dense.bias is not None:
            dense.bias.data.copy_(layer.bias)
        torch.testing.assert_close(model(inputs), dense(inputs))
        plainer = folded(model)
        assert type(plainer[0]) is kind
        torch.testing.assert_close(plainer(inputs), model(inputs))
        model(inputs).square().sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        assert float(layer.weight.std()) == pytest.approx(float(plain[0].weight.std()), rel=0.5)


def test_phm_over_channels_is_the_hypercomplex_convolution():
    """PHC (Grassucci et al. 2022): W = Σ_i A_i ⊗ F_i, F_i [out/n, in/n, kernel, kernel]."""
    torch.manual_seed(0)
    layer = convert(nn.Sequential(nn.Conv2d(8, 16, 3, bias=False)), "phm", n=4)[0]
    (structure,) = layer.maps
    # The columns of a map are kernel positions within a channel, so that a block of columns is a block of channels.
    filters = structure.s.view(4, 4, 2, 3, 3)
    expected = sum(
        torch.einsum("pq,oihw->poqihw", a, f).reshape(16, 8, 3, 3) for a, f in zip(structure.a, filters, strict=True)
    )
    torch.testing.assert_close(layer.weight, expected)
    assert sum(parameter.numel() for parameter in layer.parameters()) == 16 * 8 * 9 // 4 + 4**3


def test_training_freezing_and_types_are_kept():
    plain = nn.Sequential(nn.Conv1d(8, 8, 3).requires_grad_(False), nn.Conv1d(8, 8, 3)).to(torch.bfloat16).eval()
    model = convert(plain, "phm", n=4)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert not any(parameter.requires_grad for parameter in model[0].parameters())
    assert model[1].bias is not None
    assert not model[1].training


def test_updates_merge_and_files(tmp_path):
    def build():
        torch.manual_seed(3)
        return nn.Sequential(nn.Conv2d(8, 8, 3, groups=2), nn.ReLU(), nn.Conv2d(8, 4, 1))

    inputs = inputs_of(nn.Conv2d)
    for name, options in (("phm", {"n": 2}), ("added", {"options": "rank=1"})):
        model = convert(build(), name, **options)
        optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
        model(inputs).square().mean().backward()
        optimizer.step()
        loaded = load(build, save(model, tmp_path / "model.safetensors"))
        assert torch.equal(loaded(inputs), model(inputs))
        if name == "added":
            merged = merge(model)
            assert type(merged[0]) is nn.Conv2d
            torch.testing.assert_close(merged(inputs), model(inputs))
            torch.testing.assert_close(convert(build(), "added")(inputs), build()(inputs))


def test_what_cannot_be_converted_is_named():
    normed = nn.Conv1d(8, 8, 3)
    nn.utils.parametrizations.weight_norm(normed)
    model = nn.Sequential(nn.ConvTranspose1d(8, 8, 3), nn.Conv3d(4, 4, 3), normed, nn.Conv1d(8, 8, 1))
    report = conversion_report(convert(model, "phm", n=4))
    assert [layer.name for layer in report.converted] == ["3"]
    assert {layer.name: layer.reason for layer in report.left} == {
        "0": "not supported",
        "1": "not supported",
        "2": "not supported",
    }
    with pytest.raises(PhmrunError, match="is called 0"):
        convert(model, "phm", n=4, names="0")
