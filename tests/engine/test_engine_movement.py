"""Movement of outputs by a factor's first step, against real steps of torch's optimizers."""

from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from tiny_experiments import configured, run_experiment, run_of
from torch import Tensor, nn

from phmrun.engine.dry_run import dry_run
from phmrun.engine.module import Loss, TrainingModule, build_module
from phmrun.engine.movement import BATCHES, balance, factors_of, movements, rounded
from phmrun.engine.optimizers import build_optimizer, rates
from phmrun.engine.preparation import build_data
from phmrun.errors import PhmrunError
from phmrun.layers import Linear
from phmrun.layers.network import share_parameters, structures_of

LAYERS = [
    ("phm", {"n": 4}),
    ("low-rank", {"rank": 8}),
    ("monarch", {"blocks": 4, "rank": 2}),
    ("blast", {"blocks": 4, "rank": 4}),
    ("kronecker", {"rank": 2}),
    ("circulant", {}),
]


class Pairs(NamedTuple):
    inputs: Tensor
    slopes: Tensor
    window_units: int = 1


class OneMap(TrainingModule):
    """Loss whose gradient in the outputs is given."""

    def __init__(self, *maps: nn.Module) -> None:
        super().__init__(nn.ModuleList(maps), partial(build_optimizer, name="adam"), lambda step: 1.0)

    def loss(self, batch: Pairs) -> Loss:
        total = torch.stack([(layer(batch.inputs) * batch.slopes).sum() for layer in self.network]).sum()
        return Loss(total, total.detach(), 1)


def drawn(seed: int, tokens: int = 40, size: int = 32) -> Pairs:
    torch.manual_seed(seed)
    return Pairs(torch.randn(tokens, size) * torch.rand(size), torch.randn(tokens, size))


def moved(layer: nn.Module, batch: Pairs, optimizer: Any) -> float:
    before = layer(batch.inputs)
    (before * batch.slopes).sum().backward()
    optimizer.step()
    return float((layer(batch.inputs) - before).detach().double().norm())


@pytest.mark.parametrize(("structure", "options"), LAYERS)
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_movement_is_that_of_torchs_first_step_beside_a_dense_matrix(structure, options, name):
    batch = drawn(0)
    layer = Linear(32, 32, bias=False, structure=structure, **options)
    measured = movements(OneMap(layer), [batch], name)
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[name]
    dense = nn.Linear(32, 32, bias=False)
    dense.weight.data.copy_(layer.weight)
    whole = moved(dense, batch, kind(dense.parameters(), lr=1e-5))
    for label, factor in factors_of(layer.structure).items():
        start = factor.detach().clone()
        layer.zero_grad()
        share = moved(layer, batch, kind([factor], lr=1e-5)) / whole
        factor.data.copy_(start)
        assert measured[f"0.structure.{label}"].share == pytest.approx(share, rel=0.02)


@pytest.mark.parametrize(("structure", "options"), LAYERS)
def test_at_measured_rates_each_factor_moves_the_outputs_as_asked(structure, options):
    batch = drawn(1)
    layer = Linear(32, 32, bias=False, structure=structure, **options)
    module = OneMap(layer)
    measured = {name: movement.multiplier for name, movement in movements(module, [batch], "adam").items()}
    dense = nn.Linear(32, 32, bias=False)
    dense.weight.data.copy_(layer.weight)
    whole = moved(dense, batch, torch.optim.Adam(dense.parameters(), lr=1e-5))
    factors = factors_of(layer.structure)
    for name, rate in measured.items():
        factor = factors[name.removeprefix("0.structure.")]
        start = factor.detach().clone()
        layer.zero_grad()
        share = moved(layer, batch, torch.optim.Adam([factor], lr=1e-5 * rate)) / whole
        factor.data.copy_(start)
        assert share == pytest.approx(1 / len(factors), rel=0.06)  # multipliers are rounded to 9 %


def test_measuring_changes_neither_the_module_nor_the_random_state():
    module, batch = OneMap(Linear(32, 32, structure="phm", n=4), nn.Dropout(0.5)), drawn(2)
    weights, state = {key: value.clone() for key, value in module.state_dict().items()}, torch.get_rng_state()
    assert movements(module, [batch], "adam") == movements(module, [batch], "adam")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, weights[key]) for key, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_a_factor_of_two_maps_is_measured_once_and_dense_and_frozen_ones_never():
    maps = [Linear(32, 32, structure="phm", n=4, share="model") for _ in range(2)]
    module = OneMap(*maps, Linear(32, 32), Linear(32, 32, structure="low-rank", freeze="v"))
    share_parameters(module.network)
    measured = movements(module, [drawn(3)], "adam")
    assert set(measured) == {"0.structure.a", "0.structure.s", "1.structure.s", "3.structure.u"}
    assert measured["3.structure.u"].factors == 1
    assert balance(module.network, measured, "adam") == []


@pytest.mark.parametrize(("structure", "options"), LAYERS[:5])
@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_balanced_factors_move_the_outputs_alike_and_the_matrix_stays(structure, options, name):
    batch = drawn(4)
    layer = Linear(32, 32, bias=False, structure=structure, **options)
    module, before = OneMap(layer), layer.weight.detach().clone()
    first = movements(module, [batch], name)
    assert balance(module.network, first, name) == ["0"]
    shares = [movement.share for movement in movements(module, [batch], name).values()]
    assert max(shares) / min(shares) < 1.25
    torch.testing.assert_close(layer.weight.detach(), before, rtol=1e-3, atol=1e-5)


def test_lamb_is_measured_and_not_balanced():
    layer = Linear(32, 32, structure="low-rank", rank=4)
    measured = movements(OneMap(layer), [drawn(5)], "lamb")
    assert all(movement.share > 0 for movement in measured.values())
    assert balance(nn.ModuleList([layer]), measured, "lamb") == []


def test_multipliers_are_steps_of_an_eighth_of_an_octave():
    assert [rounded(value) for value in (1.0, 1.04, 3.9, 0.26)] == [1.0, 1.0, 4.0, 0.25]
    assert rounded(1.05) == pytest.approx(2 ** (1 / 8))


MEASURED = {"layer": {"structure": "low-rank"}, "training": {"optimizer": {"rates": "measured"}}}


def test_a_run_keeps_its_measured_rates_and_the_dry_run_shows_them(tmp_path):
    config = configured("sva", tmp_path / "corpus", MEASURED)
    run = run_of(run_experiment(config, tmp_path / "runs"))
    kept = run.parameters()["rates"]
    data = build_data(config)
    data.prepare()
    torch.manual_seed(config.seed)
    module = build_module(config, *data.vocabulary.sizes)
    assert set(kept) == {
        f"{name}.structure.{label}"
        for name, structure in structures_of(module.network).items()
        for label in (factors_of(structure) if structure.name != "dense" else ())
    }
    assert len(set(kept.values())) > 1
    shown = {rate.name: rate.rate for rate in dry_run(config).rates}
    assert {name: shown[name] for name in kept} == kept
    assert BATCHES == 4


def test_the_rate_of_the_maps_alone_leaves_embedding_output_and_biases():
    network = nn.ModuleDict({"embedding": nn.Module(), "block": Linear(8, 8, structure="phm", n=2)})
    network["embedding"].structure = Linear(8, 8).structure
    network["output"] = Linear(8, 8)
    table = {rate.name: rate.rate for rate, _ in rates(network, "adam", measured={}, map_rate=0.25)}
    assert {name for name, rate in table.items() if rate == 0.25} == {"block.structure.a", "block.structure.s"}
    groups = build_optimizer(network, map_rate=0.25).param_groups
    assert sorted({group["lr"] for group in groups}) == [0.25, 1.0]


def test_new_keys_at_their_defaults_keep_the_run_id_and_others_change_it(tmp_path):
    plain = dry_run(configured("sva", tmp_path, {})).run_id
    assert dry_run(configured("sva", tmp_path, {"training": {"optimizer": {"map_rate": 1.0}}})).run_id == plain
    for change in ({"map_rate": 0.5}, {"rates": "measured"}, {"rates": "measured", "balance": True}):
        assert dry_run(configured("sva", tmp_path, {"training": {"optimizer": change}})).run_id != plain


def test_balance_needs_measured_rates(tmp_path):
    with pytest.raises(PhmrunError, match=r"rates=measured"):
        configured("sva", tmp_path, {"training": {"optimizer": {"balance": True}}})
