"""Estimate of the remaining time, and the live view."""

import io
from dataclasses import replace

import pytest
from rich.console import Console

from phmrun.ledger import Run, State
from phmrun.sweeps.cell_status import CLAIM, CellState, Estimate, distinct, look, orphans, progress, survey, tally
from phmrun.sweeps.scheduler import Event
from phmrun.sweeps.view import Tracker, said, shown

STEPS = {"training": {"max_steps": 100}}
SIX = {"task": "toy", "base": STEPS, "grid": {"model.width": [4, 6, 8]}, "seeds": 2}


@pytest.fixture
def at(planned, tmp_path):
    """A plan, and a way to give its runs a state."""

    class At:
        runs_dir = tmp_path / "runs"

        def __init__(self, content=None):
            self.plan = planned(content or SIX)

        def put(self, place: int, state: State, **facts) -> Run:
            run = Run.create(self.runs_dir, str(self.plan.cells[place].run_id), "task: toy\n")
            run.set_state(state, **facts)
            return run

        def statuses(self):
            return survey(self.plan, self.runs_dir)

    return At


def test_where_cells_stand(at):
    created = at()
    created.put(0, State.DONE)
    created.put(1, State.FAILED, reason="no memory")
    created.put(2, State.RUNNING)  # nobody holds it
    created.put(3, State.QUEUED)
    claimed = created.put(4, State.QUEUED)
    held = created.put(5, State.INTERRUPTED)
    with held.lock():
        statuses = created.statuses()
        assert [str(status.state) for status in statuses] == [
            "done", "failed", "interrupted", "queued", "queued", "running"
        ]  # fmt: skip
        assert orphans(statuses) == 1
        # Another machine's claim counts while its heart beats, this process's own is no obstacle.
        (claimed.path / CLAIM).write_text('{"host": "far", "pid": 1, "born": "x", "space": "y", "token": "abc"}')
        assert look(created.plan.cells[4], created.runs_dir).state is CellState.RUNNING
        assert look(created.plan.cells[4], created.runs_dir).claimed
    assert statuses[1].reason == "no memory"
    assert tally(statuses) == {
        CellState.DONE: 1, CellState.RUNNING: 1, CellState.INTERRUPTED: 1, CellState.QUEUED: 2,
        CellState.FAILED: 1
    }  # fmt: skip


def test_a_directory_that_was_only_just_made_is_a_queued_cell(at):
    created = at()
    (created.runs_dir / str(created.plan.cells[0].run_id)).mkdir(parents=True)
    assert created.statuses()[0].state is CellState.MISSING
    (created.runs_dir / str(created.plan.cells[0].run_id) / "config.yaml").write_text("task: toy\n")
    assert created.statuses()[0].state is CellState.QUEUED


def test_the_same_experiment_counts_once(at):
    created = at({"task": "toy", "include": [{"layer": "dense"}, {"model.width": 16}, {"model.width": 4}]})
    assert len(created.statuses()) == 3
    assert len(distinct(created.statuses())) == 2


def test_other_seeds_tell_best_how_long_a_cell_takes(at):
    created = at()
    nothing = Estimate(created.statuses())
    assert nothing.left(created.statuses()[0]) is None
    assert nothing.total(created.statuses(), 1) is None
    created.put(0, State.DONE, seconds=10.0, step=100)
    created.put(2, State.DONE, seconds=30.0, step=100)
    estimate = Estimate(created.statuses())
    assert [estimate.left(status) for status in created.statuses()] == [0, 10, 0, 30, 20, 20]
    assert estimate.total(created.statuses(), 2) == 40


def test_the_estimate_counts_whole_runs(at):
    created = at()
    run = created.put(0, State.DONE, seconds=10.0, step=100)
    run.write_environment([{"wall_seconds": 11.0}, {"wall_seconds": 3.0}])
    estimate = Estimate(created.statuses())
    assert estimate.total(created.statuses(), 1) == 5 * (10 + 4)


def test_the_own_pace_of_a_run_decides(at):
    created = at()
    created.put(0, State.INTERRUPTED, seconds=8.0, step=80)
    (status, *_) = created.statuses()
    assert progress(status) == 0.8
    assert Estimate([]).left(status) == pytest.approx(2)
    without = at({"task": "toy", "grid": {"model.width": [4]}, "seeds": 2})
    without.put(0, State.DONE, seconds=9.0)
    without.put(1, State.INTERRUPTED, seconds=4.0)
    assert progress(without.statuses()[1]) is None  # its length is not a number of steps
    assert Estimate(without.statuses()).left(without.statuses()[1]) == 5


def test_patience_bounds_the_time_left_until_a_similar_run_has_ended(at):
    created = at({"task": "toy", "base": {"training": {"max_steps": 100, "patience": 3}}, "seeds": 3})
    created.put(0, State.INTERRUPTED, seconds=4.0, step=10)
    (running, *_) = created.statuses()
    estimate = Estimate([])
    assert (estimate.left(running), estimate.text(36, [running])) == (36, "up to 36 s")
    estimate.learn(running.cell, 10.0)  # patience ended another seed after 25 steps
    assert (estimate.left(running), estimate.text(6, [running])) == (6, "about 6 s")
    estimate = Estimate([])
    estimate.learn(running.cell, 3.0)  # this one has already trained for longer
    assert (estimate.left(running), estimate.text(36, [running])) == (36, "up to 36 s")


def test_lines_where_there_is_no_terminal(at, caplog):
    created = at()
    tracker = Tracker(created.statuses(), created.runs_dir, 1)
    caplog.set_level("INFO", "phmrun")
    with shown(tracker, Console(file=io.StringIO())) as view:
        run = created.put(0, State.RUNNING, step=40, seconds=4.0)
        run.history.append({"step": 40, "train/units_per_second": 1234.0})
        with run.lock():
            view(Event(look(created.plan.cells[0], created.runs_dir)))
            assert tracker.summary(tracker.refresh()) == "0 of 6 done · 1 running · 1,234 units/s"
        created.put(0, State.DONE, step=100, seconds=10.0)
        run.update_metrics("test/bleu", {"value": 31.25, "signature": "x"})
        view(Event(look(created.plan.cells[0], created.runs_dir), 12.0, 0))
        assert tracker.summary(tracker.refresh()) == "1 of 6 done · about 60 s left"  # with 2 s to start and to score
        created.put(1, State.FAILED, reason="out of memory")
        view(Event(look(created.plan.cells[1], created.runs_dir), 3.0, 4, ["…"]))
        created.put(2, State.INTERRUPTED, reason="its process ended without a word")
        view(Event(look(created.plan.cells[2], created.runs_dir), 3.0, -9))
    assert caplog.messages == [
        "0 of 6 done",
        f"started model.width 4 · seed 1 ({created.plan.cells[0].run_id})",
        "done after 12 s model.width 4 · seed 1: test/bleu 31.25",
        "failed after 3 s model.width 4 · seed 2: out of memory",
        "interrupted after 3 s model.width 6 · seed 1: killed by signal 9",
    ]


def test_a_run_that_was_started_runs_before_it_has_taken_its_lock(at):
    created = at()
    tracker = Tracker(created.statuses(), created.runs_dir, 1)
    run = created.put(0, State.QUEUED)
    status = look(created.plan.cells[0], created.runs_dir)
    assert status.state is CellState.QUEUED
    tracker.take(Event(replace(status, state=CellState.RUNNING)))
    for _ in range(2):
        assert tracker.summary(tracker.refresh()) == "0 of 6 done · 1 running"
    run.set_state(State.DONE, seconds=1.0)
    assert [status.state for status in tracker.refresh()] == []
    tracker.take(Event(look(created.plan.cells[0], created.runs_dir), 3.0, 0))
    assert tracker.summary(tracker.refresh()) == "1 of 6 done · about 15 s left"


def test_a_table_on_a_terminal(at):
    created = at()
    run = created.put(0, State.RUNNING, step=40, seconds=4.0)
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with run.lock():
        tracker = Tracker(created.statuses(), created.runs_dir, 1)
        with shown(tracker, console) as view:
            view(None)
            created.put(1, State.FAILED, reason="out of [memory]")
            view(Event(look(created.plan.cells[1], created.runs_dir), 3.0, 4))
    text = console.file.getvalue()
    assert "model.width 4 · seed 1" in text
    assert "40%" in text
    assert "failed after 3 s model.width 4 · seed 2: out of [memory]" in text
    assert "0 of 6 done · 1 running" in text


def test_an_event_elsewhere(at):
    created = at()
    created.put(0, State.DONE)
    assert said(Event(look(created.plan.cells[0], created.runs_dir))) == "done elsewhere model.width 4 · seed 1"
    assert (
        said(Event(look(created.plan.cells[0], created.runs_dir), 1.0, -2)) == "done after 1 s model.width 4 · seed 1"
    )
    assert said(Event(look(created.plan.cells[1], created.runs_dir), 1.0, -15)) == (
        "not begun after 1 s model.width 4 · seed 2: killed by signal 15"
    )
