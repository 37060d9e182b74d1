"""Rates by the shape of a factor: the paper's multipliers, what they do to the output, and what an optimizer gets."""

import pytest
import torch
from torch import nn

from phmrun.engine.optimizers import build_optimizer, rates
from phmrun.layers import Linear

CASES = [
    ("dense", {}, {}),
    ("phm", {"n": 4}, {"a": 512 / 4 / 2, "s": 1 / 2}),
    ("low-rank", {"rank": 8}, {"v": 1 / 2, "u": 512 / 8 / 2}),
    ("monarch", {"blocks": 8, "rank": 3}, {"right": 8 / 2, "left": 512 / 24 / 2}),
    ("blast", {"blocks": 8, "rank": 4}, {"c": 8 / 3, "d": 64 / 3, "b": 128 / 3}),
    ("group", {"groups": 4}, {"block": 4.0}),
    ("hypercomplex", {}, {}),
]


def of(structure, optimizer, **options):
    linear = Linear(512, 2048, structure=structure, **options)
    return {rate.name.removeprefix("structure."): rate for rate, _ in rates(linear, optimizer)}


@pytest.mark.parametrize(("name", "options", "expected"), CASES)
def test_a_factor_gets_the_rate_that_its_shape_asks_for(name, options, expected):
    actual = of(name, "adamw", **options)
    for label, rate in actual.items():
        assert rate.rate == pytest.approx(expected.get(label, 1.0))
        factors = max(1, len(expected)) if label in expected else 1
        assert rate.rate * rate.decay == pytest.approx(1 / factors if label in expected else 1.0)
    assert actual["bias"].rate == 1.0


@pytest.mark.parametrize(("name", "options"), [("phm", {"n": 4}), ("phm", {"n": 8}), ("kronecker", {"rank": 8})])
def test_the_factors_then_move_the_output_alike(name, options):
    """A sign step: at equal rates, one factor moves the output many times as far as the other."""
    torch.manual_seed(0)
    inputs = torch.randn(64, 256)
    linear = Linear(256, 256, bias=False, structure=name, **options)
    before = linear(inputs).detach()
    (linear(inputs) * torch.randn(64, 256)).sum().backward()

    def moved(parameter, step):
        with torch.no_grad():
            change = step * parameter.grad.sign()
            parameter.add_(change)
            distance = float((linear(inputs) - before).norm())
            parameter.sub_(change)
        return distance

    actual = [(rate.rate, parameter) for rate, parameter in rates(linear, "adam")]
    first = [moved(parameter, 1e-4) for _, parameter in actual]
    structured = [moved(parameter, 1e-4 * rate) for rate, parameter in actual]
    assert max(structured) / min(structured) < max(first) / min(first)
    assert max(structured) / min(structured) < 8


def test_the_rate_of_the_maps_alone_leaves_embedding_output_and_biases():
    network = nn.ModuleDict({"embedding": nn.Module(), "block": Linear(8, 8, structure="phm", n=2)})
    network["embedding"].structure = Linear(8, 8).structure
    network["output"] = Linear(8, 8)
    network["plain"] = nn.Linear(8, 8)
    table = {rate.name: rate.rate for rate, _ in rates(network, "adam", by_shape=False, map_rate=0.25)}
    assert {name for name, rate in table.items() if rate == 0.25} == {
        *("block.structure.a", "block.structure.s", "plain.weight")
    }
    groups = build_optimizer(network, map_rate=0.25).param_groups
    assert sorted({group["lr"] for group in groups}) == [0.25, 1.0]
