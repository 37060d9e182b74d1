"""Classifiers with ``variant="released"`` compute what the code of Matsuno et al. computes, in float64."""

import pytest
import torch
from recording import largest_difference, part, recorded

from phmrun.layers import Biaffine, build_structure


def renamed(numbers):
    """Their variables under the names of our parameters; a diagonal is called real there."""
    names = {"real": "real", "imaginary": "imaginary"} if "imaginary" in numbers else {"real": "diagonal"}
    weights = {f"maps.{n}.{ours}": row for name, ours in names.items() for n, row in enumerate(numbers[name])}
    return {**weights, "u": numbers["u"], "v": numbers["v"]}


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("structure", ["symmetric", "circulant"])
def test_scores_gradients_and_a_step_are_those_of_the_released_classifiers(structure, labels):
    numbers = recorded("matsuno")
    kind = f"{structure}{labels}"
    layer = Biaffine(8, labels, constant=False, structure=structure, variant="released").double()
    layer.load_state_dict(renamed(part(numbers, f"{kind}/before/")))
    x, y = numbers["x"], numbers["y"]
    scores = layer(x, y).view(2, labels, 4, 4).transpose(1, 2)
    torch.testing.assert_close(scores, numbers[f"{kind}/scores"], atol=1e-12, rtol=0)
    aligned = layer.pairs(x, y)
    torch.testing.assert_close(aligned, numbers[f"{kind}/scores"].diagonal(dim1=1, dim2=3).transpose(1, 2))
    scores.square().sum().backward()
    gradients = {name: value.grad for name, value in layer.named_parameters()}
    assert largest_difference(gradients, renamed(part(numbers, f"{kind}/gradient/"))) < 1e-12
    torch.optim.Adam(layer.parameters(), lr=0.002, betas=(0.9, 0.9), eps=1e-9).step()
    assert largest_difference(dict(layer.named_parameters()), renamed(part(numbers, f"{kind}/after/"))) < 1e-12


def test_a_circulant_classifier_starts_from_the_transform_of_one_real_vector(monkeypatch):
    """A slip of axes of theirs, which ours does not repeat, mixes these numbers among several labels."""
    numbers = recorded("matsuno")
    monkeypatch.setattr(torch, "rand_like", lambda like: numbers["circulant1/drawn"].to(like))
    structure = build_structure("circulant", 8, 8, variant="released").double()
    structure.start_as_released()
    start = {
        name: value[0] for name, value in part(numbers, "circulant1/start/").items() if name in ("real", "imaginary")
    }
    assert largest_difference(dict(structure.named_parameters()), start) < 1e-12
    mixed = start["real"].repeat_interleave(3).view(3, 8)
    torch.testing.assert_close(numbers["circulant3/start/real"], mixed, atol=1e-12, rtol=0)


def test_a_symmetric_classifier_starts_with_length_1():
    layer = Biaffine(400, 2, structure="symmetric", variant="released")
    lengths = [structure.diagonal.norm().item() for structure in layer.maps]
    assert [*lengths, recorded("matsuno")["symmetric1/start/real"].norm().item()] == pytest.approx([1.0] * 3)
