"""Rows at equal training time: measured once, trained by steps, compared though their steps differ."""

import shutil
from dataclasses import replace

import pytest
import yaml
from typer.testing import CliRunner

from phmrun.cli.results import app as cli
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.results.comparison import differences
from phmrun.results.verdicts import notes
from phmrun.sweeps import load_sweep
from phmrun.sweeps.budget import (
    TRAVELS,
    calibration_dir,
    calibrations,
    seconds_of_calibration,
    within_budget,
    write_budget,
)
from phmrun.sweeps.cell_status import CellState, survey
from phmrun.sweeps.plan import varied
from phmrun.sweeps.results import results_of

SWEEP = {
    "task": "toy",
    "grid": {"layer": ["dense", "phm"]},
    "base": {"training": {"max_steps": 77}},
    "seeds": 2,
    "budget": {"time": 600},
}


def make(cell, values):
    import toy_experiment

    return varied(cell, values, toy_experiment.inspect, toy_experiment.options_of)


def measure(plan, runs_dir, paces):
    """Record calibration runs; the first steps of each take longer, a pace is in seconds per step."""
    for status, pace in zip(calibrations(plan, runs_dir, make), paces, strict=True):
        run = Run.create(calibration_dir(plan, runs_dir), status.cell.run_id, "task: toy\n")
        for step in (50, 100, 150):
            run.history.append({"step": step, "time": 5 + step * pace})
        run.set_state(State.INTERRUPTED, "the time limit", step=160, seconds=60.1)


def test_steps_follow_from_measured_seconds(planned, tmp_path):
    plan = planned(SWEEP)
    left = calibrations(plan, tmp_path, make)
    assert [status.cell.label for status in left] == ["layer dense · seed 1", "layer phm · seed 1"]
    training = left[0].cell.config.training
    assert (training.max_time, training.max_epochs) == ("00:01:00", None)
    assert [status.state for status in survey(within_budget(plan, tmp_path, make), tmp_path)] == [CellState.MISSING] * 4
    measure(plan, tmp_path, [0.1, 0.2])
    assert calibrations(plan, tmp_path, make) == []
    budgeted = within_budget(plan, tmp_path, make)
    assert [cell.config.training.max_steps for cell in budgeted.cells] == [6000, 6000, 3000, 3000]
    assert [cell.config.seed for cell in budgeted.cells] == [1, 2, 1, 2]
    # An equal run from the command line has the same id, so that it can be reproduced without the sweep.
    again = make(plan.cells[0], {"training.max_steps": 6000})
    assert again.run_id == budgeted.cells[0].run_id


def test_calibration_that_was_interrupted_goes_on(planned, tmp_path):
    plan = planned(SWEEP)
    for status in calibrations(plan, tmp_path, make):
        run = Run.create(calibration_dir(plan, tmp_path), status.cell.run_id, "task: toy\n")
        run.set_state(State.INTERRUPTED, "by the user", step=10, seconds=59.0)
    assert [status.state for status in calibrations(plan, tmp_path, make)] == [CellState.INTERRUPTED] * 2


def test_steps_travel_with_the_results(planned, tmp_path):
    plan = planned(SWEEP)
    runs, elsewhere, results = tmp_path / "runs", tmp_path / "elsewhere", tmp_path / "results"
    measure(plan, runs, [0.1, 0.2])
    ids = list(within_budget(plan, runs, make).runs)
    write_budget(results, plan, runs, make)
    moved = replace(plan, sweep=replace(plan.sweep, name="moved-1", where=str(results / "sweep.yaml")))
    assert list(within_budget(moved, elsewhere, make).runs) == ids
    assert calibrations(moved, elsewhere, make) == []  # nothing is measured again, so that further seeds fit
    # A sweep's file that was moved has another name; its runs directory still has the calibrations.
    (results / TRAVELS).unlink()
    assert list(within_budget(moved, runs, make).runs) == ids
    assert [cell.searching for cell in within_budget(moved, elsewhere, make).cells] == [True] * 4
    (results / TRAVELS).write_text("[]")
    with pytest.raises(PhmrunError, match="the budget of the sweep cannot be read"):
        within_budget(moved, elsewhere, make)


def finished(plan, runs, early=None):
    """Results of a plan whose runs made all steps of the budget; the run number ``early`` stopped one before."""
    measure(plan, runs, [0.1, 0.2])
    plan = within_budget(plan, runs, make)
    for number, cell in enumerate(plan.cells):
        run = Run.create(runs, cell.run_id, "task: toy\n")
        run.update_metrics("test/accuracy", {"value": 80.0 + number, "signature": "x"})
        run.set_state(State.DONE, step=cell.config.training.max_steps - (number == early))
    return results_of(plan, survey(plan, runs))


def test_rows_that_ended_before_their_budget_are_named(planned, tmp_path):
    table = finished(planned({**SWEEP, "seeds": 3}), tmp_path, early=4).pivot()
    lines = notes(table, differences(table), ["dense", "phm"])
    assert lines[0].endswith("at these settings; 600 s of training for every row")
    assert [line for line in lines if "early" in line] == [
        "phm: early stopping ended 1 of 3 runs before 600 s of training"
    ]


def test_rows_with_other_steps_are_compared_at_equal_time(planned, tmp_path):
    table = finished(planned({**SWEEP, "seeds": 3}), tmp_path).pivot()
    assert table.keys == ("layer", "training.max_steps")
    assert table.figures[1][0].lengths == ("600 s of training",)
    assert [line[0].lengths for line in table.figures] == [("600 s of training",)] * 2


def test_calibration_is_a_tenth_of_the_budget():
    assert [seconds_of_calibration(budget) for budget in (0.5, 2, 12, 100, 250, 600, 7200)] == [
        1,
        2,
        10,
        10,
        25,
        60,
        60,
    ]


def test_sweep_trains_the_steps_that_fit(phmrun, written, tmp_path):
    file = written(SWEEP)
    runs = tmp_path / "runs"
    failed = phmrun("run", file)  # the stand-in for training ends before the time limit
    assert failed.exit_code != 0
    assert "the seconds per step of layer dense · seed 1 could not be measured" in str(failed.exception)
    from phmrun.sweeps.planning import planned

    plan = planned(file)
    for status in calibrations(plan, runs, make):
        run = Run(calibration_dir(plan, runs) / status.cell.run_id)
        run.set_state(State.INTERRUPTED, "the time limit", step=600, seconds=60.0)
    assert phmrun("run", file).exit_code == 0
    configs = (yaml.safe_load(path.read_text()) for path in runs.glob("toy-*/config.yaml"))
    assert [config["training"]["max_steps"] for config in configs] == [6000] * 4
    assert "4 done" in phmrun("status", file).output
    folder = tmp_path / "results" / "mine"
    runner = CliRunner()
    assert runner.invoke(cli, ["add", file, "--to", str(folder), "--runs-dir", str(runs)]).exit_code == 0
    shutil.rmtree(runs)
    assert runner.invoke(cli, ["restore", str(folder), "--runs-dir", str(runs)]).exit_code == 0
    status = phmrun("status", str(folder / "sweep.yaml"))
    assert "4 done" in status.output, status.output
    for refused in (["run", file, "--executor", "slurm"], ["run", file, "--horizons", "1,3"]):
        assert isinstance(phmrun(*refused).exception, PhmrunError)


def test_budget_stands_alone(written):
    with pytest.raises(PhmrunError, match="no horizons, no task script"):
        load_sweep(written({**SWEEP, "horizons": [1, 3]}))
    with pytest.raises(PhmrunError, match=r"budget\.time"):
        load_sweep(written({**SWEEP, "budget": {"time": 0}}))
