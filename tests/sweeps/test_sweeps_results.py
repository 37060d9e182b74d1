"""A sweep's results as a table: the grid's keys, or a paper's shape with its numbers."""

import pytest
from test_sweeps_file import TABLE

from phmrun.config import to_yaml
from phmrun.ledger import Run, State
from phmrun.ledger.record import record_of, restore, write_record
from phmrun.results.comparison import differences
from phmrun.results.layout import lay_out
from phmrun.sweeps.cell_status import survey
from phmrun.sweeps.results import results_of


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
            run.add_metrics({"test/accuracy": {"value": value, "signature": "labels:a+b"}})
            run.add_metrics({"test/other": {"value": value / 2, "signature": "x"}})
            run.set_state(State.DONE)
        return created, survey(created, tmp_path / "runs")

    return make


def rows(table, **options):
    ((columns, lines),), _ = lay_out(table, {}, paper=options.get("paper", False))
    return [columns, *lines]


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


def test_a_papers_table(filled):
    created, statuses = filled(TABLE, [91.0, None, 90.5, 79.0])
    assert rows(results_of(created, statuses).pivot(), paper=True) == [
        ["row", "parameters", "A", "paper", "Δ", "B", "paper", "Δ", "C", "paper", "Δ", "seeds"],
        ["Dense", None, "91.00‡", "90.1", "(+0.90)", "–", "80.1", "–", "–", "–", "–", "0 of 1, 1"],
        ["PHM", None, "90.50‡", "90.0", "(+0.50)", "79.00‡", "–", "–", "39.50‡", "–", "–", "1"],
        ["Theirs", None, "–", "91.0", "–", "–", "–", "–", "–", "–", "–", "–"],
    ]


def ended(run, value):
    """Ends a run with a score, or with NaN in training."""
    if value is None:
        run.set_state(State.FAILED, "the training loss is nan at optimizer step 120")
        return
    run.add_metrics({"validation/best": {"value": value}})
    run.add_metrics({"test/accuracy": {"value": value, "signature": "x"}})
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
        (_, (_, rows)), _ = lay_out(table, differences(table, 0))
        assert [row[0] for row in rows] == ["phm", "rank"]
        return [(str(c.verdict), c.judgement.collapsed) for c in differences(table, 0).values()]

    assert verdicts(tmp_path / "runs") == [("undecided", (2, 0)), ("untrained", (6, 0))]
    assert verdicts(restored(tmp_path / "runs", tmp_path)) == verdicts(tmp_path / "runs")
