"""Estimate of the remaining time, and the live view."""

import io

import pytest
from rich.console import Console

from phmrun.ledger import Run, State
from phmrun.sweeps.cell_status import CLAIM, CellState, Estimate, look, orphans, survey, tally
from phmrun.sweeps.scheduler import Event
from phmrun.sweeps.view import Tracker, shown

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


def test_lines_where_there_is_no_terminal(at, caplog):
    created = at()
    tracker = Tracker(created.statuses(), created.runs_dir, 1)
    caplog.set_level("INFO", "phmrun")
    with shown(tracker, Console(file=io.StringIO())) as view:
        run = created.put(0, State.RUNNING, step=40, seconds=4.0)
        with run.lock():
            view(Event(look(created.plan.cells[0], created.runs_dir)))
            assert tracker.summary() == "0 of 6 done · 1 running"
        created.put(0, State.DONE, step=100, seconds=10.0)
        run.update_metrics("test/bleu", {"value": 31.25, "signature": "x"})
        view(Event(look(created.plan.cells[0], created.runs_dir), 12.0, 0))
        assert tracker.summary() == "1 of 6 done · about 50 s left"
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
