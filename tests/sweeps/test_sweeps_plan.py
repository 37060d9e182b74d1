"""From a file to cells: which there are, in which order, under which names, and which cannot be."""

import pytest
import toy_experiment
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_sweeps_file import TABLE
from toy_planner import runs_of

from phmrun.config import load_run_config, run_id, to_yaml
from phmrun.errors import ExitCode, PhmrunError
from phmrun.sweeps.selection import fits, read_selection

PHM = {"structure": "phm", "n": 2}
SWEEP = {
    "task": "toy",
    "base": {"model": {"width": 12}},
    "grid": {"layer": ["dense", PHM, {"structure": "phm", "n": 5}], "training.clip": [0, 1]},
    "seeds": 2,
}


def test_cells_in_order(planned):
    cells = planned(SWEEP).cells
    assert [cell.label for cell in cells][:5] == [
        "layer dense · training.clip 0 · seed 1",
        "layer dense · training.clip 0 · seed 2",
        "layer dense · training.clip 1 · seed 1",
        "layer dense · training.clip 1 · seed 2",
        "layer phm n=2 · training.clip 0 · seed 1",
    ]
    assert len(cells) == 12
    assert [cell.parameters for cell in cells] == [144] * 4 + [72] * 4 + [None] * 4
    assert cells[4].config.layer.options == {"n": 2}
    assert cells[7].config.training.clip == 1


def test_impossible_cells_say_why(planned):
    faulty = planned(SWEEP).cells[8:]
    assert {str(cell.fault) for cell in faulty} == {"n = 5 does not divide 12"}
    assert all(cell.run_id is None and cell.fault.code != ExitCode.DATA for cell in faulty)
    wrong = planned({"task": "toy", "grid": {"layer": ["dense", "pmh"], "layer.n": [2]}}).cells
    assert "the layer 'dense' has no option 'n'" in str(wrong[0].fault)
    assert "did you mean 'phm'" in str(wrong[1].fault)
    assert "sweep.yaml" in str(wrong[1].fault)


def test_an_option_is_varied_only_for_the_layers_that_have_it(planned):
    grid = {"layer.n": [2, 3], "layer": ["dense", "phm"], "training.clip": [0, 1]}
    cells = planned({"task": "toy", "base": {"model": {"width": 12}}, "grid": grid}).cells
    assert [cell.fault for cell in cells] == [None] * 6
    actual = [
        (cell.config.layer.structure, cell.config.layer.options.get("n"), cell.config.training.clip) for cell in cells
    ]
    assert sorted(actual, key=str) == [
        ("dense", None, 0.0), ("dense", None, 1.0), *(("phm", n, clip) for n in (2, 3) for clip in (0.0, 1.0))
    ]  # fmt: skip


def test_include_and_exclude(planned):
    content = {
        **SWEEP,
        "include": [{"layer": {"structure": "rank", "rank": 3}, "model": {"width": 4}}, {"model.width": 6}],
        "exclude": [{"layer.n": [5, 7]}, {"layer": "phm", "training.clip": 1}],
    }
    labels = [cell.label for cell in planned(content).cells if cell.at["seed"] == 1]
    assert labels == [
        "layer dense · training.clip 0 · seed 1",
        "layer dense · training.clip 1 · seed 1",
        "layer phm n=2 · training.clip 0 · seed 1",
        "layer rank rank=3 · model width=4 · seed 1",
        "model.width 6 · seed 1",
    ]
    alone = planned({"task": "toy", "include": [{"layer": "phm"}, {"layer": "dense"}]})
    assert len(alone.cells) == 2


def test_a_baseline_names_some_cells_of_the_sweep(planned):
    cells = planned({**SWEEP, "baseline": {"training.clip": 1}}).cells
    assert {(cell.at["training.clip"], cell.baseline) for cell in cells} == {(0, False), (1, True)}
    assert {cell.baseline for cell in planned(SWEEP).cells} == {None}
    for baseline, message in (
        ({"training.clip": 7}, "training.clip=7 fits no cell"),
        ({"trainig.clip": 1}, "trainig.clip=1 fits no cell"),
        ({"training.clip": [0, 1]}, "training.clip=0, training.clip=1 fits every cell"),
    ):
        with pytest.raises(PhmrunError, match=message):
            planned({**SWEEP, "baseline": baseline})


def test_an_unknown_task_is_an_error(planned):
    with pytest.raises(PhmrunError, match="there is no task 'nmtt'"):
        planned({"task": "nmtt"})


def test_the_cells_of_a_table_are_its_rows_and_experiments(planned, written):
    cells = planned(TABLE).cells
    assert [cell.label for cell in cells] == [
        "Dense · column A · seed 1", "Dense · column B · seed 1", "PHM · column A · seed 1", "PHM · column B · seed 1"
    ]  # fmt: skip
    assert [cell.config.data.name for cell in cells] == ["builtin", "other"] * 2
    twin = {
        "table": written(TABLE, "table1.yaml"),
        "base": {"model": {"width": 4}},
        "grid": {"column": ["C"]},
        "seeds": 2,
    }
    assert [(cell.label, cell.parameters) for cell in planned(twin).cells] == [
        ("Dense · seed 1", 16), ("Dense · seed 2", 16), ("PHM · seed 1", 8), ("PHM · seed 2", 8)
    ]  # fmt: skip


def test_the_configuration_that_is_handed_over_is_the_same_experiment(planned, tmp_path):
    for cell in runs_of(planned(SWEEP)).values():
        path = tmp_path / "config.yaml"
        path.write_text(to_yaml(cell.config, cell.origin))
        again = load_run_config(path, options_of=toy_experiment.options_of)
        assert run_id(again, fingerprints=toy_experiment.inspect(cell.config).fingerprints) == cell.run_id


def test_the_same_experiment_twice_is_one_run(planned):
    created = planned({"task": "toy", "grid": {"model.width": [16, 12]}, "include": [{"layer": "dense"}]})
    assert len(created.cells) == 3
    assert [cell.label for cell in runs_of(created).values()] == ["model.width 16 · seed 1", "model.width 12 · seed 1"]


def test_only_what_is_asked_for(planned):
    def labels(**only):
        return [cell.label for cell in planned(SWEEP, only=only).cells]

    whole = [cell.label for cell in planned(SWEEP).cells]
    assert labels(layer=["phm"]) == [label for label in whole if "phm" in label]
    second = [label for label in whole if "n=5" not in label and "seed 2" in label]
    assert labels(layer=["phm n=2", "dense"], seed=[2]) == second
    clipped = [label for label in whole if "n=5 · training.clip 1" in label]
    assert labels(**{"training.clip": [1], "layer.n": [5]}) == clipped
    assert labels(**{"model.width": [12]}) == [label for label in whole if "n=5" in label or "n=5" not in label]
    assert fits({"name": "1e3", "size": 1000}, None, read_selection(["name=1e3", "size=1e3"]))
    with pytest.raises(PhmrunError, match="no cell of the sweep fits layr=phm") as caught:
        labels(layr=["phm"])
    assert "layer, training.clip, seed" in str(caught.value)
    with pytest.raises(PhmrunError, match="layr=phm fits no cell of the sweep"):
        planned({"task": "toy", "exclude": [{"layr": "phm"}]})
    with pytest.raises(PhmrunError, match="every cell of the sweep is excluded"):
        planned({"task": "toy", "exclude": [{"task": "toy"}]})


values = st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(widths=values, clips=values, orders=values, seeds=st.integers(1, 4), more=st.integers(0, 3))
def test_a_grid_is_a_product_that_grows(planned, widths, clips, orders, seeds, more):
    grid = {"model.width": widths, "layer": [{"structure": "phm", "n": n} for n in orders], "training.clip": clips}
    content = {"task": "toy", "grid": grid, "seeds": seeds}
    small, large = planned(content), planned(content, seeds=seeds + more)
    assert len(small.cells) == len(widths) * len(clips) * len(orders) * seeds
    assert runs_of(small).keys() <= runs_of(large).keys()
    assert len(large.cells) * seeds == len(small.cells) * (seeds + more)
    possible = [cell for cell in small.cells if cell.fault is None]
    assert len(runs_of(small)) == len(possible)  # different settings, different names
    for cell in small.cells:
        assert (cell.fault is None) == (cell.at["model.width"] % cell.at["layer"]["n"] == 0)


def test_a_grid_that_nobody_can_run_is_refused_before_it_is_written_out(planned):
    grid = {f"model.key{i}": list(range(10)) for i in range(30)}
    with pytest.raises(PhmrunError, match=r"far too many cells are more than the 100,000"):
        planned({"task": "toy", "grid": grid})
