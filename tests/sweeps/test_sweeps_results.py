"""A sweep's results as a table: the grid's keys, or a paper's shape with its numbers."""

from functools import partial

import pytest
import toy_experiment
from test_sweeps_file import TABLE

from phmrun.config import to_yaml
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.record import record_of, restore, write_record
from phmrun.results.comparison import differences
from phmrun.results.layout import lay_out
from phmrun.results.long_table import Results
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.file import RATE
from phmrun.sweeps.plan import varied
from phmrun.sweeps.results import results_of
from phmrun.sweeps.tuning import settled


@pytest.fixture
def filled(planned, tmp_path):
    """The cells of a sweep whose runs have these scores, in the order of the cells; None: not done."""

    def make(content, values):
        created = planned(content)
        for cell, value in zip(created.cells, values, strict=True):
            if value is None or cell.run_id is None:
                continue
            layer = cell.config.layer
            data = f"data: {{name: {cell.config.data.name}}}\nseed: {cell.config.seed}\n"
            config = f"task: toy\n{data}layer: {{structure: {layer.structure}}}\n"
            run = Run.create(tmp_path / "runs", cell.run_id, config)
            run.update_metrics("test/accuracy", {"value": value, "signature": "labels:a+b"})
            run.update_metrics("test/other", {"value": value / 2, "signature": "x"})
            run.set_state(State.DONE)
        return created, survey(created, tmp_path / "runs")

    return make


def rows(table, **options):
    laid = lay_out(table, "mean±std", {}, paper=options.get("paper", False))
    return [laid.columns, *laid.rows]


GRID = {"task": "toy", "grid": {"layer": ["dense", "phm"], "data": [{"name": "a"}, {"name": "b"}]}, "seeds": 2}


def test_a_grid(filled):
    created, statuses = filled(GRID, [80.0, 82.0, 70.0, None, 60.0, 61.0, None, None])
    assert rows(results_of(created, statuses).pivot()) == [
        ["layer", "parameters", "name=a test/accuracy", "name=b test/accuracy", "seeds"],
        ["dense", None, "81.00 ± 1.41", "70.00", "1 of 2, 2"],
        ["phm", None, "60.50 ± 0.71", "–", "0 of 2, 2"],
    ]


def test_the_rows_of_a_sweep_are_compared_with_its_baseline(filled):
    content = {"task": "toy", "baseline": {"training.clip": 1}, "grid": {"training.clip": [0, 1]}, "seeds": 3}
    created, statuses = filled(content, [80, 82, 81, 60, 61, 59])
    (compared,) = differences(results_of(created, statuses).pivot()).values()
    assert compared.judgement.difference.value == pytest.approx(21)


def test_the_rows_of_a_sweep_are_compared_with_its_dense_row(filled):
    created, statuses = filled(
        {"task": "toy", "grid": {"layer": ["dense", "phm"]}, "seeds": 3}, [80, 82, 81, 60, 61, 59]
    )
    results = results_of(created, statuses)
    assert [entry.dense for entry in results.entries] == [True] * 3 + [False] * 3
    assert not any(entry.diverged for entry in results.entries)
    (compared,) = differences(results.pivot()).values()
    assert compared.judgement.difference.value == pytest.approx(-21)
    assert str(compared.verdict) == "different"


def test_the_shape_that_is_asked_for(filled):
    created, statuses = filled(GRID, [80.0, 82.0, 70.0, None, 60.0, 61.0, None, None])
    shaped = results_of(created, statuses).pivot(rows=["data.name", "layer"], columns=["seed"], scores=["test/other"])
    assert rows(shaped)[0] == ["data.name", "layer", "parameters", "1 test/other", "2 test/other", "seeds"]
    assert rows(shaped)[2] == ["b", "dense", None, "35.00", "–", "0 of 1, 1"]
    output = results_of(created, statuses).pivot(rows=["data.name", "layer"])  # and so no column
    assert rows(output)[0] == ["data.name", "layer", "parameters", "test/accuracy", "seeds"]
    with pytest.raises(PhmrunError, match="no experiment has a value at 'layr'") as caught:
        results_of(created, statuses).pivot(rows=["layr"])
    assert "layer, data, seed" in str(caught.value)


def test_a_papers_table(filled):
    created, statuses = filled(TABLE, [91.0, None, 90.5, 79.0])
    assert rows(results_of(created, statuses).pivot(), paper=True) == [
        ["row", "parameters", "A", "paper", "Δ", "B", "paper", "Δ", "C", "paper", "Δ", "seeds"],
        ["Dense", None, "91.00‡", "90.1", "(+0.90)", "–", "80.1", "–", "–", "–", "–", "0 of 1, 1"],
        ["PHM", None, "90.50‡", "90.0", "(+0.50)", "79.00‡", "–", "–", "39.50‡", "–", "–", "1"],
        ["Theirs", None, "–", "91.0", "–", "–", "–", "–", "–", "–", "–", "–"],
    ]


def test_runs_without_a_sweep(filled):
    _, statuses = filled(GRID, [80.0, 82.0, 70.0, None, 60.0, 61.0, None, None])
    table = Results.load([status.run for status in statuses if status.run]).pivot()
    assert rows(table) == [
        ["layer", "parameters", "a test/accuracy", "b test/accuracy", "seeds"],
        ["dense", None, "81.00 ± 1.41", "70.00", "1, 2"],
        ["phm", None, "60.50 ± 0.71", "–", "2"],
    ]


def ended(run, value):
    """Ends a run with a score, or with NaN in training."""
    if value is None:
        run.set_state(State.FAILED, "the training loss is nan at optimizer step 120")
        return
    run.update_metrics("validation/best", {"value": value})
    run.update_metrics("test/accuracy", {"value": value, "signature": "x"})
    run.set_state(State.DONE)


def restored(runs_dir, tmp_path):
    """Another directory with the runs of this one, as records bring them there."""
    runs = [run for run in map(Run, sorted(runs_dir.iterdir())) if run.status_path.is_file()]
    files = [write_record(record_of(run, items={}, weights={}), tmp_path / "records") for run in runs]
    restore(files, tmp_path / "restored")
    return tmp_path / "restored"


def test_diverged_seeds_count_after_a_restore_as_before(planned, tmp_path):
    created = planned({"task": "toy", "grid": {"layer": ["dense", "phm", "rank"]}}, seeds=6)
    for cell in created.cells:
        layer, seed = cell.config.layer.structure, cell.config.seed
        lost = (layer == "phm" and seed > 4) or layer == "rank"
        value = None if lost else 80 + (0.1, 0.3, -0.2, 0.2, -0.1, 0.15)[seed - 1] + 2 * (layer == "phm")
        ended(Run.create(tmp_path / "runs", cell.run_id, to_yaml(cell.config, cell.origin)), value)

    def verdicts(runs_dir):
        table = results_of(created, survey(created, runs_dir)).pivot()
        laid = lay_out(table, "mean", differences(table, 0), paper=False)
        assert [row[0] for row in laid.verdict_rows] == ["phm", "rank"]
        return [(str(c.verdict), c.judgement.collapsed) for c in differences(table, 0).values()]

    assert verdicts(tmp_path / "runs") == [("undecided", (2, 0)), ("untrained", (6, 0))]
    assert verdicts(restored(tmp_path / "runs", tmp_path)) == verdicts(tmp_path / "runs")


def test_a_diverged_trial_has_ended_after_a_restore_too(planned, tmp_path):
    tune = {RATE: [0.001, 0.01, 0.1]}
    training = {"schedule": {"name": "constant"}, "optimizer": {"lr": 1.0}, "monitor": "accuracy"}
    content = {"task": "toy", "grid": {"layer": ["dense", "phm"]}, "base": {"training": training}, "tune": tune}
    created = planned(content, seeds=4)

    def chosen(runs_dir):
        make = partial(varied, inspect=toy_experiment.inspect, options_of=toy_experiment.options_of)
        return settled(created, runs_dir, tune, make), make

    for row in chosen(tmp_path / "runs")[0]:
        for values, status in row.trials:
            run = Run.create(tmp_path / "runs", status.cell.run_id, to_yaml(status.cell.config, status.cell.origin))
            ended(run, None if values[RATE] == 0.1 else 90 - abs(values[RATE] - 0.01))
    for runs_dir in (tmp_path / "runs", restored(tmp_path / "runs", tmp_path)):
        rows, _ = chosen(runs_dir)
        assert [(row.values, row.is_searching) for row in rows] == [({RATE: 0.01}, False)] * 2
