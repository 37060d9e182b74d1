"""``Linear`` as a drop-in for ``torch.nn.Linear``, over every structure."""

import inspect

import pytest
import torch
from structure_cases import CASES
from torch import nn

from phmrun.layers import Linear


def test_arguments_come_in_the_order_of_torch():
    theirs = list(inspect.signature(nn.Linear).parameters)
    ours = list(inspect.signature(Linear).parameters.values())
    assert [parameter.name for parameter in ours][: len(theirs)] == theirs
    assert all(p.kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD for p in ours[len(theirs) :])
    layer = Linear(3, 5, False, "cpu", torch.float64)
    assert layer.bias is None
    assert layer.weight.shape == (5, 3)
    assert layer.weight.dtype == torch.float64
    assert repr(layer).startswith("Linear(\n  in_features=3, out_features=5, bias=False")


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_it_does_what_torch_does_with_the_same_weight(name, options, bias):
    torch.manual_seed(0)
    ours = Linear(16, 32, bias, structure=name, **options)
    theirs = nn.Linear(16, 32, bias)
    with torch.no_grad():
        theirs.weight.copy_(ours.weight)
        if bias:
            theirs.bias.copy_(ours.bias)
    inputs = torch.randn(5, 16)
    torch.testing.assert_close(ours(inputs), theirs(inputs))


@pytest.mark.parametrize(("name", "options"), CASES)
def test_on_the_meta_device_nothing_is_allocated(name, options):
    layer = Linear(10**6, 2 * 10**6, device="meta", structure=name, **options)
    assert all(parameter.is_meta for parameter in layer.parameters())
    assert layer(torch.empty(1, 10**6, device="meta")).shape == (1, 2 * 10**6)


def test_the_initialisation_is_torchs_own():
    torch.manual_seed(0)
    ours, theirs = Linear(300, 700), nn.Linear(300, 700)
    for mine, other in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
        mine, other = mine.detach(), other.detach()
        assert float(mine.std()) == pytest.approx(float(other.std()), rel=0.05)
        assert float(mine.abs().max()) == pytest.approx(300**-0.5, rel=0.02)


def test_a_shared_structure_keeps_its_weights():
    first = Linear(6, 6, structure="phm", n=2)
    before = first.weight.detach().clone()
    second = Linear(6, 6, structure=first.structure)
    assert torch.equal(first.weight, before)
    assert second.structure is first.structure
    assert second.bias is not first.bias


@pytest.mark.parametrize(("name", "options"), CASES)
def test_under_autocast_the_weight_is_built_in_full_precision(name, options):
    torch.manual_seed(0)
    layer = Linear(32, 32, structure=name, **options)
    exact = layer.weight
    with torch.autocast("cpu", torch.bfloat16):
        assert layer.weight.dtype == torch.float32
        assert torch.equal(layer.weight, exact)
        assert layer(torch.randn(2, 32)).dtype == torch.bfloat16
