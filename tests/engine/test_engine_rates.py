"""Rates by the shape of a factor: the paper's multipliers, what they do to the output, and what an optimizer gets."""

import pytest
import torch
from torch import nn

from phmrun.config import OptimizerConfig
from phmrun.engine.optimizers import build_optimizer, parameter_groups, rate_table, rates
from phmrun.layers import Embedding, Linear

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


def test_other_optimizers():
    lamb = {label: rate.rate for label, rate in of("low-rank", "lamb", rank=8).items()}
    assert lamb == {"v": 0.5, "u": 0.5, "bias": 1.0}
    actual = of("low-rank", "sgd", rank=8)
    assert actual["v"].rate == pytest.approx((8 / 512) / (2048 / 512) / 2)
    assert actual["u"].rate == pytest.approx((2048 / 8) / (2048 / 512) / 2)
    assert all(rate.decay == 1.0 for rate in of("low-rank", "adam", rank=8).values())


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


def test_shared_parameters_once_and_frozen_ones_never():
    table = Embedding(8, 4, structure="low-rank", rank=2)
    network = nn.ModuleList([table, Linear(4, 8, structure=table.structure), Linear(4, 4, structure="phm", freeze="a")])
    names = [rate.name for rate, _ in rates(network, "adam")]
    assert names == ["0.structure.u", "0.structure.v", "1.bias", "2.bias", "2.structure.s"]


def test_one_rate_is_one_group_and_the_default():
    network = Linear(8, 8, structure="phm", n=2)
    assert len(build_optimizer(network).param_groups) == 1
    groups = build_optimizer(network, name="adamw", weight_decay=0.1, rates="structure").param_groups
    assert {group["lr"] for group in groups} == {2.0, 0.5, 1.0}
    assert sum(len(group["params"]) for group in groups) == 3
    assert sorted(group["lr"] * group["weight_decay"] for group in groups) == pytest.approx([0.05, 0.05, 0.1])


def test_a_frozen_algebra_stays():
    linear = Linear(8, 8, structure="phm", n=2, freeze="a")
    before = linear.structure.a.clone()
    optimizer = build_optimizer(linear, rates="structure")
    linear(torch.randn(3, 8)).sum().backward()
    optimizer.step()
    assert torch.equal(linear.structure.a, before)


def test_the_table_has_the_same_place_of_all_layers_once():
    network = nn.ModuleList(Linear(8, 8, structure="phm", n=2) for _ in range(3))
    table = rate_table(network, OptimizerConfig(rates="structure"))
    assert [rate.name for rate in table] == [
        "*.bias",
        "*.structure.a",
        "*.structure.s",
    ]
    assert len(parameter_groups(network, "adam", 0.0)) == 3


def test_the_rate_of_the_maps_alone_leaves_embedding_output_and_biases():
    network = nn.ModuleDict({"embedding": nn.Module(), "block": Linear(8, 8, structure="phm", n=2)})
    network["embedding"].structure = Linear(8, 8).structure
    network["output"] = Linear(8, 8)
    table = {rate.name: rate.rate for rate, _ in rates(network, "adam", by_shape=False, map_rate=0.25)}
    assert {name for name, rate in table.items() if rate == 0.25} == {"block.structure.a", "block.structure.s"}
    groups = build_optimizer(network, map_rate=0.25).param_groups
    assert sorted({group["lr"] for group in groups}) == [0.25, 1.0]
