"""A structure with a dense guide: the mixture in training, the structure alone in all else."""

import copy

import pytest
import torch
from torch import nn

from phmrun.engine.counting import count_network
from phmrun.layers import Linear, folded


def linear(**options):
    torch.manual_seed(0)
    return Linear(8, 12, structure="guided", **options)


@pytest.mark.parametrize(("done", "alpha"), [(0.0, 1.0), (0.125, 0.8535534), (0.25, 0.5), (0.5, 0.0), (0.9, 0.0)])
def test_alpha_falls_along_half_a_cosine(done, alpha):
    structure = linear(of="low-rank").structure
    structure.set_progress(done)
    assert float(structure.alpha) == pytest.approx(alpha, abs=1e-6)
    inside = structure.inside.materialize()
    expected = alpha * structure.dense + (1 - alpha) * inside
    torch.testing.assert_close(structure.materialize(), expected)


@pytest.mark.parametrize("of", ["phm", "low-rank", "monarch"])
def test_evaluation_copies_and_tables_are_those_of_the_structure_alone(of):
    module = linear(of=of)
    plain = Linear(8, 12, structure=module.structure.inside)
    plain.bias = module.bias
    inputs = torch.randn(3, 8)
    torch.testing.assert_close(module(inputs), plain(inputs))  # the guide begins as the structure's own matrix
    torch.nn.init.normal_(module.structure.dense)
    assert not torch.allclose(module(inputs), plain(inputs))
    expected = plain(inputs)
    torch.testing.assert_close(folded(module)(inputs), expected)
    torch.testing.assert_close(copy.deepcopy(module).eval()(inputs), expected)
    module.structure.set_progress(0.5)
    torch.testing.assert_close(module(inputs), expected)


def test_the_guide_learns_while_it_is_there_and_no_longer():
    module = linear(of="low-rank")
    for done, learns in ((0.3, True), (0.7, False)):
        module.zero_grad()
        module.structure.set_progress(done)
        module(torch.randn(3, 8)).sum().backward()
        assert (module.structure.dense.grad is not None) is learns
        assert all(parameter.grad is not None for parameter in module.structure.inside.parameters())


def test_counts_say_what_is_kept_and_what_is_trained():
    network = nn.Sequential(linear(of="phm", options="n=2"), Linear(12, 4))
    counts = count_network(network)
    kept = 12 * 8 // 2 + 8 + 12 + 12 * 4 + 4
    assert counts["total"] == kept
    assert counts["trained_total"] == kept + 12 * 8
    assert counts["dense_total"] == 12 * 8 + 12 + 12 * 4 + 4
    assert counts["memory"]["weights"] == 4 * (kept + 12 * 8)
    assert network[0].structure.kept() == 12 * 8 // 2 + 8
