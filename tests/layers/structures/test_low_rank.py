import pytest
import torch
from torch.nn import functional as F

from phmrun.layers import Embedding, Linear, build_structure, for_inference
from phmrun.layers.cross_entropy import linear_cross_entropy
from phmrun.layers.inference import PackedLinear
from phmrun.layers.structures.low_rank import LowRank


def test_it_is_the_product_and_has_the_rank():
    torch.manual_seed(0)
    structure = build_structure("low-rank", 30, 20, rank=3).double()
    structure.reset_parameters(1.0)
    expected = sum(torch.outer(structure.u[:, i], structure.v[i]) for i in range(3))
    torch.testing.assert_close(structure.materialize(), expected)
    assert int(torch.linalg.matrix_rank(structure.materialize())) == 3
    assert structure.kept() == 3 * 50


@pytest.mark.parametrize(
    ("size", "budget", "rank"),
    [
        ((512, 512), "1/4", 64),
        ((2048, 512), "1/4", 102),
        ((512, 512), 0.25, 64),
        ((512, 512), "1/2", 128),
        ((32128, 512), "1/16", 31),
        ((8, 8), "1/1000", 1),
    ],
)
def test_the_rank_is_the_largest_within_the_budget(size, budget, rank):
    structure = build_structure("low-rank", *size, budget=budget)
    assert structure.rank == rank
    count = structure.kept()
    share = eval(str(budget))
    assert count <= share * size[0] * size[1] or rank == 1
    assert (rank + 1) * sum(size) > share * size[0] * size[1]


def test_it_is_applied_by_its_factors_unless_told_otherwise(monkeypatch):
    linear = Linear(20, 30, structure="low-rank", rank=2)
    assert linear.application == "factored"
    assert Linear(20, 30, structure="low-rank", rank=2, application="dense").application == "dense"
    assert Linear(20, 30, structure="phm", n=2).application == "dense"
    table = Embedding(50, 20, structure="low-rank", rank=2)

    def never(self):
        raise AssertionError("W was built")

    inputs = torch.randn(4, 20)
    expected = inputs @ linear.weight.t() + linear.bias
    monkeypatch.setattr(LowRank, "materialize", never)
    torch.testing.assert_close(linear(inputs), expected)
    table(torch.tensor([3, 4])).sum().backward()
    for application in ("dense", "factored"):
        plain = for_inference(linear, application)
        assert isinstance(plain, PackedLinear)
        torch.testing.assert_close(plain(inputs), expected)


def test_the_loss_over_a_vocabulary_needs_no_table(monkeypatch):
    table = Embedding(50, 20, structure="low-rank", rank=2)
    output = Linear(20, 50, structure=table.structure)
    hidden, targets = torch.randn(7, 20), torch.randint(50, (7,))
    expected = F.cross_entropy(output(hidden), targets, reduction="sum")
    monkeypatch.setattr(LowRank, "materialize", None)
    inner, weight = output.reduced(hidden)
    assert weight.shape == (50, 2)
    torch.testing.assert_close(linear_cross_entropy(inner, weight, output.bias, targets).loss, expected)
