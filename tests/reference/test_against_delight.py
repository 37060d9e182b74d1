"""DeLighT's transformation and the released DeFINE compute what sacmehta/delight computes, in float64."""

import pytest
import torch
from recording import default_double, largest_difference, part, recorded

from phmrun.layers.define_released import ReleasedDeFINE, released_maps
from phmrun.models.delight import DeLighTTransformation, group_maps

UNITS = {
    "delight": lambda: DeLighTTransformation(16, 8, 16, widest=32, depth=4, max_groups=4),
    "define": lambda: ReleasedDeFINE(16, 16, widest=32, depth=4, max_groups=4),
}


@pytest.fixture(scope="module")
def numbers():
    return recorded("delight")


@pytest.mark.parametrize("name", UNITS)
def test_outputs_gradients_and_a_step_are_those_of_the_authors_code(numbers, name):
    with default_double():
        unit = UNITS[name]().double()
        unit.load_state_dict(part(numbers, f"{name}/before/"))
        outputs = unit(numbers["inputs"])
        torch.testing.assert_close(outputs, numbers[f"{name}/outputs"], atol=1e-12, rtol=0)
        outputs.square().sum().backward()
        gradients = {key: value.grad for key, value in unit.named_parameters()}
        assert largest_difference(gradients, part(numbers, f"{name}/gradient/")) < 1e-10
        torch.optim.SGD(unit.parameters(), lr=0.1).step()
        assert largest_difference(dict(unit.named_parameters()), part(numbers, f"{name}/after/")) < 1e-10


@pytest.mark.parametrize(
    ("name", "plan"),
    [("define", released_maps(192, 1024, 384, 7, 16)), ("delight", group_maps(64, 512, 128, 7, 8))],
)
def test_sizes_and_groups_are_those_of_the_authors_code(numbers, name, plan):
    for kind, field in (("in", "inputs"), ("out", "outputs"), ("groups", "groups")):
        assert [getattr(item, field) for item in plan] == numbers[f"{name}/plan/{kind}"].tolist()
