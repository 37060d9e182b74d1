"""A trained run compressed: the plan, the child run, what it keeps of its parent."""

from fractions import Fraction

import pytest
import torch
from tiny_experiments import configured, run_experiment, run_of

from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.experiment import train
from phmrun.engine.schedules import schedule_from
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.exchange.compress import derivation, layer_of, make_plan
from phmrun.exchange.further_training import further_training, in_words
from phmrun.layers.network import scope_of, structures_of


@pytest.fixture(scope="module", params=["nmt", "lm"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parent")
    config = configured(request.param, folder / "corpus", {"training": {"max_steps": 6}})
    return run_of(run_experiment(config, folder / "runs"))


@pytest.fixture
def parent(run):
    trained = open_run(run)
    return trained, trained.load()


def child_of(trained, weights, plan, layer, steps, batches=2):
    training = further_training(trained.config.training, trained.module.schedule, trained.run.status.step, steps)
    config = plan.config_of(trained.config, layer, training)
    start = derivation(trained, plan, weights, batches)
    return train(config, origin={}, runs_dir=trained.run.path.parent, derivation=start)


def test_a_full_rank_child_is_its_parent(parent):
    trained, weights = parent
    layer = layer_of("phm", {"n": 1})
    plan = make_plan(trained, layer, budget=None, batches=2, fixed=True)
    assert all(item.energy > 0.99999 and item.output_energy > 0.99999 for item in plan.maps)
    assert plan.loss[1] == pytest.approx(plan.loss[0], abs=1e-4)
    result = child_of(trained, weights, plan, layer, 0)
    assert result.state == "done"
    wanted, actual = evaluate_run(open_run(trained.run)), evaluate_run(open_run(run_of(result)))
    key = next(name for name in wanted if name.startswith("test/") and "per_second" not in name)
    assert actual[key]["value"] == pytest.approx(wanted[key]["value"], rel=1e-3)
    again = child_of(trained, weights, plan, layer, 0)
    assert again.run_id == result.run_id != trained.run.id


def test_the_child_begins_with_the_fits_and_trains_on(parent):
    trained, weights = parent
    layer = layer_of("low-rank", {"rank": 2})
    plan = make_plan(trained, layer, budget=None, batches=0, fixed=True)
    assert plan.loss is None
    assert all(0 < item.energy < 1 and item.output_energy is None for item in plan.maps)
    still = open_run(run_of(child_of(trained, weights, plan, layer, 0, 0)))
    still.load()
    theirs = structures_of(still.module.network)
    for name, structure in plan.structures.items():
        torch.testing.assert_close(theirs[name].materialize(), structure.materialize())
    moved = run_of(child_of(trained, weights, plan, layer, 3, 0))
    assert moved.status.step == 3
    assert moved.id != still.run.id


def test_a_budget_leaves_dense_what_costs_most(parent):
    trained, weights = parent
    layer = layer_of("low-rank", {})
    everything = sum(p.numel() for p in trained.module.network.parameters())
    maps = sum(
        structure.out_features * structure.in_features
        for name, structure in structures_of(trained.module.network).items()
        if scope_of(name) not in ("embedding", "output")
    )
    budget = Fraction(everything - maps + maps // 2, everything)
    plan = make_plan(trained, layer, budget=budget, batches=2, fixed=False)
    assert plan.parameters <= plan.dense_parameters / 2
    assert len({tuple(item.layer.items()) for item in plan.maps}) > 1
    result = child_of(trained, weights, plan, layer, 0)
    config = open_run(run_of(result)).config
    assert {item.name for item in config.maps} <= set(plan.structures)
    total = run_of(result).parameters()["total"]
    assert (
        total == sum(p.numel() for p in trained.module.network.parameters()) - plan.dense_parameters + plan.parameters
    )


def test_tables_are_replaced_where_that_is_asked_for(parent):
    trained, weights = parent
    layer, tables = layer_of("low-rank", {}), {"embedding": layer_of("low-rank", {"budget": "1/2"})}
    plan = make_plan(trained, layer, budget=None, batches=1, fixed=True, tables=tables)
    actual = open_run(run_of(child_of(trained, weights, plan, layer, 0, 1)))
    actual.load()
    for name, structure in structures_of(actual.module.network).items():
        assert structure.name == "low-rank", name
        torch.testing.assert_close(structure.materialize(), plan.structures[name].materialize())
    with pytest.raises(PhmrunError, match="no separate dense matrix for output"):
        make_plan(trained, layer, budget=None, batches=0, fixed=True, tables={"output": layer})


def test_a_layer_that_fits_some_maps_and_a_run_that_has_some_already(parent):
    """The feed-forward maps of the translator, say, are not square; a second compression keeps what the first made."""
    trained, weights = parent
    square = layer_of("circulant", {})
    plan = make_plan(trained, square, budget=None, batches=0, fixed=True)
    child = open_run(run_of(child_of(trained, weights, plan, square, 0, 0)))
    weights = child.load()
    names = {name: item.name for name, item in structures_of(child.module.network).items()}
    assert {"dense", "circulant"} == set(names.values())
    layer = layer_of("phm", {"n": 2})
    again = make_plan(child, layer, budget=None, batches=0, fixed=True)
    assert {item.name for item in again.maps}.isdisjoint(name for name, item in names.items() if item == "circulant")
    grandchild = open_run(run_of(child_of(child, weights, again, layer, 0, 0)))
    grandchild.load()
    actual = structures_of(grandchild.module.network)
    for name, structure in (plan.structures | again.structures).items():
        wanted = structure if name in again.structures else plan.structures[name]
        assert actual[name].name == wanted.name
        torch.testing.assert_close(actual[name].materialize(), wanted.materialize())
    with pytest.raises(PhmrunError, match="fits the layer 'phm': all are circulant, phm already"):
        make_plan(grandchild, layer, budget=None, batches=0, fixed=True)


def test_what_cannot_be_is_said(parent):
    trained, _ = parent
    with pytest.raises(PhmrunError, match=r"no map of the run fits the layer 'phm': .*7"):
        make_plan(trained, layer_of("phm", {"n": 7}), budget=None, batches=0, fixed=True)
    with pytest.raises(PhmrunError, match="option"):
        layer_of("phm", {"rank": 3})
    with pytest.raises(PhmrunError, match="no weight matrix") as error:
        layer_of("projective", {}, "embedding")
    assert "added" not in error.value.valid
    adapted = {"embedding": layer_of("added", {})}
    with pytest.raises(PhmrunError, match="no compression"):
        make_plan(trained, layer_of("phm", {}), budget=None, batches=0, fixed=True, tables=adapted)


def test_budget_counts_the_whole_model(parent):
    trained, weights = parent
    layer, tables = layer_of("low-rank", {}), {"embedding": layer_of("low-rank", {})}
    plan = make_plan(trained, layer, budget=Fraction(1, 2), batches=1, fixed=False, tables=tables)
    before = sum(p.numel() for p in trained.module.network.parameters())
    total = run_of(child_of(trained, weights, plan, layer, 0, 1)).parameters()["total"]
    assert total / before == pytest.approx(plan.share)
    assert 0.3 < plan.share <= 0.5


def test_infeasible_budget_fails_before_the_fit_with_the_smallest_share(parent, monkeypatch):
    trained, _ = parent
    monkeypatch.setattr("phmrun.exchange.compress._fits", lambda *_: pytest.fail("a map was fitted"))
    monkeypatch.setattr("phmrun.exchange.compress._calibration", lambda *_: pytest.fail("data were read"))
    with pytest.raises(PhmrunError, match="smallest model") as caught:
        make_plan(trained, layer_of("low-rank", {}), budget=Fraction(1, 50), batches=1, fixed=False)
    assert "--embedding low-rank" in caught.value.hint
    with pytest.raises(PhmrunError, match=r"'circulant' does not fit the .* table"):
        make_plan(
            trained,
            layer_of("low-rank", {}),
            budget=None,
            batches=1,
            fixed=False,
            tables={"embedding": layer_of("circulant", {})},
        )


def test_further_training_has_a_falling_rate_of_its_own(parent):
    trained, _ = parent
    schedule, steps = trained.module.schedule, trained.run.status.step
    training = further_training(trained.config.training, schedule, steps, 50)
    rate = schedule_from(training, 1)
    peak = max(schedule(step) for step in range(1, steps + 1))
    assert max(rate(step) for step in range(1, 51)) == pytest.approx(0.3 * peak, rel=0.02)
    assert rate(50) < 0.01 * rate(5) < rate(1)
    assert training.average == 0
    assert training.max_steps == 50
    assert "50 steps, cosine" in in_words(training)
    chosen = ("training.optimizer.lr", "training.schedule.name")
    kept = further_training(trained.config.training, schedule, steps, 50, chosen)
    assert (kept.optimizer, kept.schedule) == (trained.config.training.optimizer, trained.config.training.schedule)
    assert further_training(trained.config.training, schedule, steps, 0).schedule == trained.config.training.schedule
