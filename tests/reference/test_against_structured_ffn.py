"""Guided low-rank maps compute what CLAIRE-Labo/StructuredFFN computes, in float64."""

import pytest
import torch
from recording import default_double, largest_difference, part, recorded

from phmrun.layers import Linear


def guided(numbers):
    torch.manual_seed(1)
    layer = Linear(6, 4, structure="guided", of="low-rank", options="rank=2").double()
    with torch.no_grad():
        layer.structure.inside.u.copy_(numbers["u"])
        layer.structure.inside.v.copy_(numbers["v"])
        layer.structure.dense.copy_(numbers["learnt"])
        layer.bias.copy_(numbers["bias"])
    return layer


@pytest.mark.parametrize("step", [1, 5, 9])
def test_outputs_and_gradients_are_those_of_the_authors_code(step):
    numbers = recorded("structured-ffn")
    with default_double():
        layer = guided(numbers)
        layer.structure.set_progress(0.5 * step / 10)  # the guide fades over the first half
        outputs = layer(numbers["inputs"])
        torch.testing.assert_close(outputs, numbers[f"{step}/outputs"], atol=1e-12, rtol=0)
        outputs.square().sum().backward()
        factors = {"dense": layer.structure.dense, "u": layer.structure.inside.u, "v": layer.structure.inside.v}
        for name, parameter in factors.items():
            torch.testing.assert_close(parameter.grad, numbers[f"{step}/{name}"], atol=1e-12, rtol=0)


def test_a_step_is_that_of_the_authors_code():
    numbers = recorded("structured-ffn")
    with default_double():
        layer = guided(numbers)
        layer.structure.set_progress(0.5 * 9 / 10)
        layer(numbers["inputs"]).square().sum().backward()
        torch.optim.AdamW(layer.parameters(), lr=0.01, betas=(0.9, 0.95), weight_decay=0.1).step()
        inside = layer.structure.inside
        after = {"dense": layer.structure.dense, "u": inside.u, "v": inside.v, "bias": layer.bias}
        assert largest_difference(after, part(numbers, "after/")) < 1e-8


def test_the_guide_begins_as_the_product_of_the_factors():
    numbers = recorded("structured-ffn")
    torch.testing.assert_close(numbers["guide"], numbers["u"] @ numbers["v"], atol=1e-14, rtol=0)
    structure = Linear(6, 4, structure="guided", of="low-rank", options="rank=2").structure
    torch.testing.assert_close(structure.dense, structure.inside.materialize())
