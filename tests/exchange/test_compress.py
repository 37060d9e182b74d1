"""A trained run compressed: the plan, the child run, what it keeps of its parent."""

import copy
from fractions import Fraction

import pytest
import torch
from tiny_experiments import run_of

from phmrun.config.training import ScheduleConfig
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.experiment import train
from phmrun.engine.trained_model import open_run
from phmrun.errors import PhmrunError
from phmrun.exchange import compress
from phmrun.exchange.compress import derivation, layer_of, make_plan
from phmrun.exchange.further_training import further_training
from phmrun.layers.network import replace_structures, scope_of, structures_of


@pytest.fixture
def run(tiny_run):
    return tiny_run("nmt", "dense")


@pytest.fixture
def parent(run):
    trained = open_run(run)
    return trained, trained.load()


def child_of(trained, weights, plan, layer, steps, batches=2):
    training = further_training(trained.config.training, trained.module.schedule, trained.run.status.step, steps)
    config = plan.config_of(trained.config, layer, training)
    start = derivation(trained, plan, weights, batches)
    return train(config, origin={}, runs_dir=trained.run.path.parent, derivation=start)


def test_a_chosen_part_of_the_schedule_joins_the_cosine(parent):
    training = parent[0].config.training.model_copy(update={"schedule": ScheduleConfig(name="noam", warmup=7)})
    further = further_training(training, lambda step: 0.1, 1, 50, ["training.schedule.warmup"])
    assert (further.schedule.name, further.schedule.warmup, further.optimizer.lr) == ("cosine", 7, 0.03)


def test_a_full_rank_child_is_its_parent(parent):
    trained, weights = parent
    layer = layer_of("phm", {"n": 1})
    plan = make_plan(trained, layer, budget=None, batches=2, fixed={"layer"})
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
    layer = layer_of("low-rank", {"rank": 2, "freeze": "u"})
    plan = make_plan(trained, layer, budget=None, batches=0, fixed={"layer"})
    assert plan.loss is None
    assert all(0 < item.energy < 1 and item.output_energy is None for item in plan.maps)
    still = open_run(run_of(child_of(trained, weights, plan, layer, 0, 0)))
    still.load()
    assert {item.name for item in still.config.maps} == plan.structures.keys()  # `layer` does not reach all maps
    theirs = structures_of(still.module.network)
    for name, structure in plan.structures.items():
        torch.testing.assert_close(theirs[name].materialize(), structure.materialize())
    moved = run_of(child_of(trained, weights, plan, layer, 3, 0))
    assert moved.status.step == 3
    assert moved.id != still.run.id


def test_a_table_that_was_compressed_before_is_kept(parent):
    trained, weights = parent
    for layer, tables in (("dense", {"embedding": layer_of("low-rank", {"rank": 1})}), ("low-rank", {})):
        plan = make_plan(trained, layer_of(layer, {}), budget=None, batches=0, tables=tables)
        trained = open_run(run_of(child_of(trained, weights, plan, layer_of(layer, {}), 0, 0)))
        weights = trained.load()
    tables = [part for name, part in structures_of(trained.module.network).items() if scope_of(name) == "embedding"]
    assert {table.name for table in tables} == {"low-rank"}


def test_guidance_begins_anew_with_the_matrices_of_the_parent(parent):
    trained, weights = parent
    replace_structures(trained.module.network, {"encoder.*": {"structure": "guided", "of": "low-rank"}})
    child = copy.deepcopy(trained.module)
    trained.module.load_state_dict({name: 2 * value for name, value in trained.module.state_dict().items()})
    guided = [part for part in structures_of(child).values() if part.name == "guided"]
    derivation(trained, compress.Plan((), {}, 0, 0, 1, None, {}, {}), weights, 0).start(child)
    assert all(torch.equal(part.dense, part.inside.materialize()) for part in guided)


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
    plan = make_plan(trained, layer, budget=budget, batches=2)
    assert plan.parameters <= plan.dense_parameters / 2
    assert len({tuple(item.layer.items()) for item in plan.maps}) > 1
    result = child_of(trained, weights, plan, layer, 0)
    config = open_run(run_of(result)).config
    assert {item.name for item in config.maps} <= set(plan.structures)
    total = run_of(result).parameters()["total"]
    assert (
        total == sum(p.numel() for p in trained.module.network.parameters()) - plan.dense_parameters + plan.parameters
    )


def test_each_map_gets_the_structure_with_the_least_error_of_its_outputs(parent):
    trained, weights = parent
    layer, others = layer_of("low-rank", {}), [layer_of("block-circulant", {})]
    plan = make_plan(trained, layer, budget=Fraction(3, 4), batches=1, others=others, allocate="error")
    assert plan.share <= 0.75
    result = child_of(trained, weights, plan, layer, 0, 1)
    child = structures_of(open_run(run_of(result)).module.network)
    assert all(child[item.name].name == item.layer["structure"] for item in plan.maps)


def test_a_pattern_names_several_maps_and_one_without_a_map_is_refused(parent):
    network = parent[0].module.network
    names = [name for name, part in structures_of(network).items() if scope_of(name) not in ("embedding", "output")]
    layer = {"structure": "low-rank", "rank": 1}
    replace_structures(network, {f"{scope_of(names[0])}.*": layer})
    replaced = {name for name, part in structures_of(network).items() if part.name == "low-rank"}
    assert replaced == {name for name in names if scope_of(name) == scope_of(names[0])}
    replace_structures(network, {names[0]: {"structure": "guided", "of": "low-rank", "options": "rank=1"}})
    replace_structures(network, {names[0][:-1] + "*": layer})  # the structure inside has a name that fits, too
    assert structures_of(network)[names[0]].name == "low-rank"
    with pytest.raises(PhmrunError, match=r"no map 'nothing\.\*'"):
        replace_structures(network, {"nothing.*": layer})


def test_an_order_that_the_user_sets_for_a_table_is_kept_beside_a_budget_for_the_maps(parent, monkeypatch):
    tried = {}
    fits = compress._fits
    monkeypatch.setattr(
        compress, "_fits", lambda name, old, its, more: fits(name, old, tried.setdefault(name, its), more)
    )
    layer, tables = layer_of("low-rank", {}), {"embedding": layer_of("low-rank", {"budget": "1/4"}, "embedding")}
    make_plan(parent[0], layer, budget=Fraction(1, 2), batches=1, fixed={"embedding"}, tables=tables)
    for name, candidates in tried.items():
        budgets = {candidate["budget"] for candidate in candidates}
        assert (budgets == {"1/4"}) is (scope_of(name) == "embedding")


def test_a_copy_of_the_runs_own_settings_needs_no_data(parent, monkeypatch):
    monkeypatch.setattr("phmrun.engine.calibration.build_data", lambda *_: pytest.fail("data were read"))
    trained, _ = parent
    copied = trained.config.model_copy(deep=True)
    assert make_plan(trained, layer_of("phm", {"n": 2}), budget=None, batches=0, config=copied).maps


def test_infeasible_budget_fails_before_the_fit_with_the_smallest_share(parent, monkeypatch):
    trained, _ = parent
    monkeypatch.setattr("phmrun.exchange.compress._fits", lambda *_: pytest.fail("a map was fitted"))
    monkeypatch.setattr("phmrun.exchange.compress.calibration_batches", lambda *_: pytest.fail("data were read"))
    with pytest.raises(PhmrunError, match="smallest model") as caught:
        make_plan(trained, layer_of("low-rank", {}), budget=Fraction(1, 50), batches=1)
    assert "--embedding low-rank" in caught.value.hint
    with pytest.raises(PhmrunError, match=r"'circulant' does not fit .*embedding"):
        make_plan(
            trained,
            layer_of("low-rank", {}),
            budget=None,
            batches=1,
            tables={"embedding": layer_of("circulant", {})},
        )
