"""PHM's released variant and quaternions compute what the PHM paper's code computes, in float64.

Their layers multiply rows by H, ours columns by W, the transpose of H. Their quaternions are conjugates of ours.
"""

import pytest
import torch
from recording import default_double, largest_difference, part, recorded

from phmrun.layers import Linear

OPTIONS = {"n2": {"n": 2}, "n4": {"n": 4}, "dual": {"n": 4, "dual": True}}


def renamed(numbers, n):
    """Their variables under the names of our parameters."""
    if "quarternion" in numbers:
        signs = torch.tensor([1.0, -1.0, -1.0, -1.0]).view(4, 1, 1)
        return {"s": signs * torch.stack(numbers["quarternion"].t().chunk(4))}
    mixers = {name.lower(): numbers[name].squeeze(1) for name in ("A", "B") if name in numbers}
    return {**mixers, "s": torch.stack(numbers["random"].t().chunk(n))}


@pytest.mark.parametrize("label", [*OPTIONS, "quaternion"])
def test_outputs_gradients_and_a_step_are_those_of_the_papers_code(label):
    numbers = recorded("phm")
    options = OPTIONS.get(label, {"n": 4})
    kind = {"structure": "phm", "variant": "released", **options}
    if label == "quaternion":
        kind = {"structure": "hypercomplex", "layout": "blocks"}
    with default_double():
        layer = Linear(16, 32, bias=False, **kind).double()
        before = renamed(part(numbers, f"{label}/before/"), options["n"])
        parameters = dict(layer.structure.named_parameters())
        with torch.no_grad():
            for name, value in before.items():
                parameters[name].copy_(value)
        outputs = layer(numbers["inputs"])
        torch.testing.assert_close(outputs, numbers[f"{label}/outputs"], atol=1e-12, rtol=0)
        outputs.square().sum().backward()
        gradients = {name: value.grad for name, value in parameters.items()}
        assert largest_difference(gradients, renamed(part(numbers, f"{label}/gradient/"), options["n"])) < 1e-10
        torch.optim.Adam(layer.parameters(), lr=0.01, betas=(0.9, 0.997), eps=1e-9).step()
        assert largest_difference(parameters, renamed(part(numbers, f"{label}/after/"), options["n"])) < 1e-10
