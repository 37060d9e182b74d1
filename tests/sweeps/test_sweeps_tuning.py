"""The same trials for every row: chosen by validation, extended at an edge, standing in the table."""

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.statistics.expected_best import expected_best
from phmrun.sweeps import load_sweep
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.plan import varied
from phmrun.sweeps.results import table_of_sweep
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
    import toy_experiment

    made = planned(SWEEP)

    def make(cell, values):
        return varied(cell, values, toy_experiment.inspect, toy_experiment.options_of)

    def look(best=None):
        """Runs every trial; its validation is the better the nearer its rate is to the layer's best one."""
        space, found = settled(made, tmp_path / "runs", SWEEP["tune"], make)
        for row in found if best else ():
            for values, status in row.trials:
                run = Run.create(tmp_path / "runs", status.cell.run_id, "task: toy\n")
                layer = status.cell.config.layer.structure
                run.update_metrics("validation/best", {"value": 1 - abs(values[RATE] - best[layer])})
                run.update_metrics("test/accuracy", {"value": 90.0, "signature": "x"})
                run.set_state(State.DONE)
        return space, found

    return made, make, look


def test_the_best_validation_chooses(rows, tmp_path):
    made, make, look = rows
    _, found = look()
    assert [row.values for row in found] == [None, None]
    assert [len(row.trials) for row in found] == [3, 3]
    assert {status.cell.config.seed for row in found for _, status in row.trials} == {1}
    look({"dense": 0.01, "phm": 0.01})
    space, found = look()
    assert [(row.values, row.at_edge) for row in found] == [({RATE: 0.01}, ())] * 2
    assert list(space[RATE]) == [0.001, 0.01, 0.1]
    chosen = with_choices(made, found, make)
    assert [cell.config.training.optimizer.lr for cell in chosen.cells] == [0.01] * 4
    table = table_of_sweep(chosen, survey(chosen, tmp_path / "runs"))
    assert table.keys == ("layer", RATE)
    assert table.rows == (("dense", "0.01"), ("phm", "0.01"))


def test_a_best_value_at_the_edge_extends_the_space_of_all_rows(rows):
    _, _, look = rows
    look({"dense": 0.01, "phm": 0.1})
    space, found = look()
    assert list(space[RATE]) == [0.001, 0.01, 0.1, 1.0]
    assert [len(row.trials) for row in found] == [4, 4]
    assert all(row.values is None for row in found)  # the new trials are still to be run
    look({"dense": 0.01, "phm": 0.1})
    space, found = look()
    assert [(row.values, row.at_edge) for row in found] == [({RATE: 0.01}, ()), ({RATE: 0.1}, ())]


def test_what_is_tuned_is_no_key_of_the_grid(written):
    with pytest.raises(PhmrunError, match="neither the seed nor a key of the grid"):
        load_sweep(written({"task": "toy", "grid": {RATE: [1.0]}, "tune": {RATE: [1.0]}}))


def test_expected_best_by_hand():
    assert expected_best([3.0, 1.0]) == pytest.approx([2.0, 2.5])  # of two draws (1,1) (1,3) (3,1) (3,3)
    assert expected_best([3.0, 1.0], lower_is_better=True) == pytest.approx([2.0, 1.5])
