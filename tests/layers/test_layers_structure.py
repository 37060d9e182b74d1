"""The interface of structures; names, options and factory; and a structure of a user's own in a few lines."""

from typing import Annotated

import pytest
import torch
from structure_cases import CASES, SQUARE, SQUARE_CASES
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.config import Source, resolve
from phmrun.engine.counting import count_network
from phmrun.errors import PhmrunError
from phmrun.layers import (
    Embedding,
    FeedForward,
    Linear,
    MultiheadAttention,
    Structure,
    build_structure,
    folded,
    options_of,
    register,
)
from phmrun.registry import STRUCTURES, TASKS


@pytest.mark.parametrize(("name", "options"), CASES + SQUARE_CASES)
def test_a_structure_says_what_it_is(name, options):
    structure = STRUCTURES.get(name)
    assert issubclass(structure, Structure)
    assert structure.name == name
    assert structure.__doc__
    assert all((structure.formula, structure.count_formula, structure.constraint, structure.source))
    fields = options_of(name).model_fields
    assert all(field.description for field in fields.values())
    assert options.keys() <= fields.keys()


@pytest.mark.parametrize(("name", "options"), CASES + SQUARE_CASES)
def test_the_matrix_is_drawn_with_the_deviation_asked_for(name, options):
    torch.manual_seed(0)
    structure = build_structure(name, 512, 512 if name in SQUARE else 256, **options)
    squares, means = [], []
    for _ in range(10):  # a few parameters, such as those of one outer product, vary from draw to draw
        structure.reset_parameters(0.25)
        weight = structure.materialize().detach()
        squares.append(float(weight.square().mean()))
        means.append(float(weight.mean()))
    assert (sum(squares) / 10) ** 0.5 == pytest.approx(0.25, rel=0.03)
    assert abs(sum(means) / 10) < 0.01


@pytest.mark.parametrize(("name", "options"), CASES + SQUARE_CASES)
def test_every_parameter_gets_a_gradient_by_every_way(name, options):
    torch.manual_seed(0)
    structure = build_structure(name, 16 if name in SQUARE else 32, 16, **options)
    structure.reset_parameters(0.5)
    ways = {
        "materialize": lambda: structure.materialize(),
        "rows": lambda: structure.rows(torch.arange(structure.out_features)),
        "factored": lambda: structure.apply_factored(torch.randn(40, 16)),
    }
    for way, outputs in ways.items():
        structure.zero_grad()
        (outputs() * torch.randn_like(outputs())).sum().backward()
        for label, parameter in structure.named_parameters():
            assert parameter.grad is not None, f"{way}: {label}"
            reached = (parameter.grad != 0).float().mean()  # released parameters may have a few that W ignores
            assert reached > 0.8 if structure.as_released else reached == 1, f"{way}: {label}"


def test_an_unknown_structure_is_refused_with_the_nearest_names():
    with pytest.raises(PhmrunError) as caught:
        Linear(4, 4, structure="pmh")
    assert caught.value.code == 2
    assert "there is no layer 'pmh'" in str(caught.value)
    assert "Did you mean 'phm'" in str(caught.value)
    assert {"dense", "phm"} <= set(caught.value.valid)


def test_an_unknown_option_is_refused_with_the_nearest_names():
    with pytest.raises(PhmrunError) as caught:
        Linear(4, 4, structure="phm", varient="released")
    assert "layer 'phm' has no option" in str(caught.value)
    assert "Did you mean 'variant'" in str(caught.value)
    assert caught.value.valid == ("dual", "freeze", "n", "variant")
    with pytest.raises(PhmrunError, match="layer 'dense' has no option 'n'"):
        Embedding(4, 4, n=2)


def own_structure() -> type[Structure]:
    """A user's structure: W = u vᵀ, rank one."""

    @register("test-rank-one")
    class RankOne(Structure):
        """An outer product."""

        formula, count_formula, source = "W = α u vᵀ", "k + d", "these tests"

        def __init__(
            self, out_features: int, in_features: int, *, scale: Annotated[float, "Factor α of W."] = 1.0
        ) -> None:
            super().__init__(out_features, in_features, scale=scale)
            self.scale = scale
            self.u = nn.Parameter(torch.empty(out_features))
            self.v = nn.Parameter(torch.empty(in_features))

        def reset_parameters(self, std: float) -> None:
            nn.init.normal_(self.u)
            nn.init.normal_(self.v, std=std / self.scale)

        def materialize(self) -> Tensor:
            return self.scale * torch.outer(self.u, self.v)

    return RankOne


@pytest.fixture
def rank_one():
    """The user's structure, known for the length of one test."""
    yield own_structure()
    STRUCTURES._registered.pop("test-rank-one", None)


def test_a_structure_of_the_users_own_works_everywhere(rank_one):
    torch.manual_seed(0)
    assert "test-rank-one" in STRUCTURES.names()
    assert options_of("test-rank-one").model_fields["scale"].description == "Factor α of W."
    linear = Linear(6, 4, structure="test-rank-one", scale=2.0)
    inputs = torch.randn(3, 6)
    weight = 2.0 * torch.outer(linear.structure.u, linear.structure.v)
    torch.testing.assert_close(linear(inputs), F.linear(inputs, weight, linear.bias))
    factored = Linear(6, 4, structure=linear.structure, bias=False, application="factored")
    torch.testing.assert_close(factored(inputs), inputs @ weight.t())

    table = Embedding(9, 6, structure="test-rank-one")
    tokens = torch.tensor([[1, 8]])
    torch.testing.assert_close(table(tokens), table.weight[tokens])

    network = nn.Sequential(
        MultiheadAttention(8, 2, structure="test-rank-one"), FeedForward(8, 16, structure="test-rank-one")
    )
    vectors = torch.randn(2, 5, 8)
    torch.testing.assert_close(folded(network)(vectors), network(vectors))
    network(vectors).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())
    maps = [(24, 8), (8, 8), (16, 8), (8, 16)]
    assert count_network(network)["block_matrices"] == {
        "count": sum(rows + columns for rows, columns in maps),
        "dense": sum(rows * columns for rows, columns in maps),
    }


def test_a_structure_of_the_users_own_is_counted_in_a_task(rank_one):
    from phmrun.config import Source, resolve, task_defaults
    from phmrun.engine.counting import count_parameters
    from phmrun.tasks.nmt.config import TranslationExperiment

    values = {
        "layer": {"structure": "test-rank-one", "scale": 3.0},
        "model": {"width": 8, "feedforward": 16, "heads": 2, "encoder_layers": 1, "decoder_layers": 1},
    }
    config = resolve(TranslationExperiment, [task_defaults("nmt"), Source("test", values)], options_of).config
    attention, feedforward = (24 + 8) + (8 + 8), (8 + 16) * 2
    assert count_parameters(config)["block_matrices"]["count"] == attention * 3 + feedforward * 2


def test_what_is_frozen_stands_in_a_configuration_only_where_it_is_asked_for():
    schema = TASKS.get("sva").load("schema")

    def layer(values):
        return resolve(schema, [Source("test", {"layer": values})], options_of).config.layer

    assert layer({"structure": "dense"}).arguments == {"structure": "dense"}
    assert "freeze" not in layer({"structure": "phm", "n": 2, "freeze": "none"}).options
    assert layer({"structure": "phm", "n": 2, "freeze": "a"}).options["freeze"] == "a"


def test_parameters_of_any_structure_may_stay_as_they_were_drawn():
    linear = Linear(8, 8, structure="low-rank", rank=2, freeze="v")
    assert [name for name, parameter in linear.named_parameters() if not parameter.requires_grad] == ["structure.v"]
    assert linear.structure.options["freeze"] == "v"
    assert "freeze" not in Linear(8, 8, structure="low-rank", rank=2).structure.options
    both = Linear(8, 8, structure="monarch", freeze="left, right").structure
    assert not any(parameter.requires_grad for parameter in both.parameters())
    assert STRUCTURES.get("low-rank").misfit(8, 8, rank=2, freeze="v") is None
    with pytest.raises(PhmrunError, match="no parameter of layer 'low-rank' to freeze 'a'") as caught:
        Linear(8, 8, structure="low-rank", rank=2, freeze="a")
    assert caught.value.valid == ("none", "u", "v")
