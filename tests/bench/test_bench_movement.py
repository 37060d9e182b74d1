"""Movement of a layer's output by one step, compared with steps of torch's optimizer."""

import pytest
import torch
from tiny_experiments import configured

from phmrun.bench.movement import movements, movements_of_run
from phmrun.layers import Linear


def test_a_dense_matrix_moves_as_far_as_itself():
    (only,) = movements("dense", {}, (16, 16), draws=2)
    assert only.factor == "matrix"
    assert (only.one, only.structure) == pytest.approx((1.0, 1.0), rel=0.01)


@pytest.mark.parametrize(("name", "optimizer"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_a_step_is_the_optimizers(name, optimizer):
    actual = {movement.factor: movement for movement in movements("phm", {"n": 2}, (8, 12), name, draws=1)}
    for factor, moved in actual.items():
        torch.manual_seed(0)
        inputs, gradient = torch.randn(64, 12), torch.randn(64, 8)
        distances = []
        for structure, options in (("dense", {}), ("phm", {"n": 2})):
            layer = Linear(12, 8, bias=False, structure=structure, **options)
            before = layer(inputs)
            before.backward(gradient)
            first = [p for n, p in layer.named_parameters() if structure == "dense" or n.endswith(f".{factor}")]
            optimizer(first, lr=1e-4).step()
            distances.append(float((layer(inputs) - before).detach().norm()))
        assert moved.one == pytest.approx(distances[1] / distances[0], rel=1e-2)


def test_rates_by_structure_bring_factors_together():
    first = {movement.factor: movement for movement in movements("phm", {"n": 4}, (64, 64), draws=2)}
    assert first["a"].one < first["s"].one / 4
    assert first["a"].structure == pytest.approx(64 / 4 / 2 * first["a"].one, rel=0.01)


def test_movements_of_a_run_are_measured_on_its_own_batches(tmp_path):
    config = configured("sva", tmp_path, {"layer": {"structure": "low-rank"}})
    effects = movements_of_run(config)
    assert {effect.factor.rpartition(".")[2] for effect in effects} == {"u", "v"}
    assert all(effect.measured == pytest.approx(0.5, rel=0.05) for effect in effects)  # an N-th each, up to rounding
    assert movements_of_run(config) == effects
