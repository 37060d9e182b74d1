"""A sweep's results as a table: the grid's keys, or a paper's shape with its numbers."""

import pytest
from test_sweeps_file import TABLE

from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.results.comparison import differences
from phmrun.results.layout import lay_out
from phmrun.results.long_table import Results
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.results import results_of
from phmrun.sweeps.sequential import families


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
    (family,) = families(statuses)
    assert family.baseline.label == "clip 1"


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
