"""The same trials for every row: chosen by validation, extended at an edge, standing in the table."""

from dataclasses import replace

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.results.comparison import differences
from phmrun.results.layout import lay_out
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.file import load_sweep
from phmrun.sweeps.plan import varied
from phmrun.sweeps.results import results_of
from phmrun.sweeps.tuning import settled, with_choices

RATE = "training.optimizer.lr"
SWEEP = {
    "task": "toy",
    "grid": {"layer": ["dense", "phm"]},
    "base": {"training": {"schedule": {"name": "constant"}, "optimizer": {"lr": 1.0}, "monitor": "accuracy"}},
    "tune": {RATE: [0.001, 0.01, 0.1]},
    "seeds": 2,
}


@pytest.fixture
def rows(planned, tmp_path):
    return course_of(planned(SWEEP), tmp_path)


def course_of(made, tmp_path):
    """The plan, what makes its trials, and what runs them."""
    import toy_experiment

    def make(cell, values):
        return varied(cell, values, toy_experiment.inspect, toy_experiment.options_of)

    def look(best=None):
        """Runs every trial; its validation is the better the nearer its rate is to the layer's best one."""
        actual = settled(made, tmp_path / "runs", make)
        for row in actual if best else ():
            for values, status in row.trials:
                run = Run.create(tmp_path / "runs", status.cell.run_id, "task: toy\n")
                layer = status.cell.config.layer.structure
                run.add_metrics({"validation/best": {"value": 1 - abs(values[RATE] - best[layer])}})
                run.add_metrics({"test/accuracy": {"value": 90.0, "signature": "x"}})
                run.set_state(State.DONE)
        return actual

    return made, make, look


def test_selected_seeds_share_the_trials_of_the_first(planned, tmp_path):
    created, make, look = course_of(planned({**SWEEP, "seeds": 4}, only={"seed": [2, 3]}), tmp_path)
    assert {status.cell.config.seed for row in look() for _, status in row.trials} == {1}
    look({"dense": 0.01, "phm": 0.01})
    rows = settled(created, tmp_path / "runs", make)
    cells = with_choices(created, rows, make).cells
    assert [(cell.config.seed, cell.chose_settings) for cell in cells] == [(2, False), (3, False)] * 2
    assert {cell.config.training.optimizer.lr for cell in cells} == {0.01}
    assert make(replace(cells[0], departs="not the paper's network"), {RATE: 0.1}).departs == "not the paper's network"


def test_the_best_validation_chooses(rows, tmp_path):
    created, make, look = rows
    actual = look()
    assert [row.values for row in actual] == [None, None]
    assert [len(row.trials) for row in actual] == [3, 3]
    assert {status.cell.config.seed for row in actual for _, status in row.trials} == {1}
    look({"dense": 0.01, "phm": 0.01})
    actual = look()
    assert [(row.values, row.at_edge) for row in actual] == [({RATE: 0.01}, ())] * 2
    assert list(actual[1].space[RATE]) == [0.001, 0.01, 0.1]
    chosen = with_choices(created, actual, make)
    assert [cell.config.training.optimizer.lr for cell in chosen.cells] == [0.01] * 4
    table = results_of(chosen, survey(chosen, tmp_path / "runs")).pivot()
    assert table.keys == ("layer", RATE)
    assert table.rows == (("dense", "0.01"), ("phm", "0.01"))
    edge = replace(chosen, cells=[replace(cell, at_edge=(RATE,)) for cell in chosen.cells])
    ((_, lines),), _ = lay_out(results_of(edge, survey(edge, tmp_path / "runs")).pivot(), {})
    assert lines[0][:2] == ["dense", "0.01 (edge)"]
    alone = [replace(cell, at={"layer": cell.at["layer"]}, own_choice=(RATE,)) for cell in edge.cells]
    edge = replace(edge, cells=alone)
    ((_, lines),), _ = lay_out(results_of(edge, survey(edge, tmp_path / "runs")).pivot(), {})
    assert lines[0][0] == "dense (edge)"  # each seed has its own value, so that there is no column for it


def test_a_best_value_at_the_edge_extends_the_space_of_all_rows(rows):
    created, make, look = rows
    look({"dense": 0.01, "phm": 0.1})
    actual = look()
    assert list(actual[1].space[RATE]) == [0.001, 0.01, 0.1, 1.0]
    assert [len(row.trials) for row in actual] == [4, 4]
    assert all(row.values is None for row in actual)  # the new trials are still to be run
    assert all(cell.searching for cell in with_choices(created, actual, make).cells)  # so no cell is done
    look({"dense": 0.01, "phm": 0.1})
    actual = look()
    assert [(row.values, row.at_edge) for row in actual] == [({RATE: 0.01}, ()), ({RATE: 0.1}, ())]


def test_a_diverged_trial_loses_even_with_the_best_score(rows, tmp_path):
    _, _, look = rows
    look({"dense": 0.01, "phm": 0.01})
    for row in look():
        failed = Run(tmp_path / "runs" / row.trials[1][1].cell.run_id)
        failed.set_state(State.FAILED, "the training loss is nan at optimizer step 3")
        Run(tmp_path / "runs" / row.trials[2][1].cell.run_id).add_metrics({"validation/best": {"value": float("nan")}})
    assert [row.values for row in look()] == [None, None]  # the least rate, at an edge, is extended
    assert [row.trials[0][0][RATE] for row in look()] == [0.0001, 0.0001]


def test_five_rates_around_the_recipes_and_two_around_the_best(planned, written, tmp_path):
    _, _, look = course_of(planned({**SWEEP, "tune": True}), tmp_path)
    actual = look()
    assert [list(row.space[RATE]) for row in actual] == [[0.1, 0.316, 1.0, 3.16, 10.0]] * 2
    best = {"dense": 0.6, "phm": 10.0}
    look(best)
    assert [row.space[RATE][-1] for row in look(best)] == [31.6] * 2  # phm is best at the edge: a sixth value for both
    look(best)
    tried = [[values[RATE] for values, _ in row.trials] for row in look()]
    assert [row[-2:] for row in tried] == [[0.178, 0.562], [5.62, 17.8]]  # half a step around 0.316 and 10
    look(best)
    dense, phm = look()
    assert (dense.values, phm.values) == ({RATE: 0.562}, {RATE: 10.0})
    assert len(dense.trials) == len(phm.trials) == 8
    with pytest.raises(PhmrunError, match="neither the seed nor a key of the grid"):
        load_sweep(written({"task": "toy", "grid": {RATE: [1.0]}, "tune": True}))
    rows = {"include": [{"training": {"optimizer": {"lr": 0.5}}}]}
    with pytest.raises(PhmrunError, match="or of include"):
        load_sweep(written({"task": "toy", **rows, "tune": {RATE: [1.0]}}))


REPLICATED = {**SWEEP, "seeds": 4, "tune": {**SWEEP["tune"], "replicates": True}}


def test_each_replicate_chooses_among_three_values_by_its_own_validation(planned, tmp_path):
    """The pilot fixes the grid and is not counted; replicates of one row may choose different values."""
    created, make, _ = course_of(planned(REPLICATED), tmp_path)

    def look(rows=None):
        actual = settled(created, tmp_path / "runs", make)
        for status in [status for row in actual[:rows] for status in row.all_trials]:
            config = status.cell.config
            # Odd seeds learn best at 0.01, seed 2 at the greatest rate.
            best = 0.1 if config.seed == 2 else 0.01
            run = Run.create(tmp_path / "runs", status.cell.run_id, "task: toy\n")
            score = 90 - 100 * abs(config.training.optimizer.lr - best) - (config.layer.structure == "phm") * 20
            run.add_metrics({"validation/best": {"value": score}})
            run.add_metrics({"test/accuracy": {"value": score + config.seed / 10, "signature": "x"}})
            run.set_state(State.DONE)
        return actual

    look(1)
    assert all(cell.searching for cell in with_choices(created, look(), make).cells)  # the other row's pilot runs still
    assert [len(row.all_trials) for row in look()] == [3 + 3 * 3] * 2
    chosen = with_choices(created, look(), make)
    rates = [(cell.config.seed, cell.config.training.optimizer.lr) for cell in chosen.cells]
    assert rates == [(2, 0.1), (3, 0.01), (4, 0.01)] * 2
    table = results_of(chosen, survey(chosen, tmp_path / "runs")).pivot()
    assert table.rows == (("dense",), ("phm",))  # the rate that a seed chose makes no row
    (comparison,) = differences(table).values()
    assert comparison.settings == "after choosing among 3 values by validation within each seed"
    assert comparison.judgement.difference.seeds == (3, 3)
    assert comparison.judgement.difference.value == pytest.approx(-20)
