"""Estimate of the remaining time, and the live view."""

import itertools
from types import SimpleNamespace

import pytest

from phmrun.ledger import Run, State
from phmrun.ledger.segment import Segment
from phmrun.sweeps.cell_status import CLAIM, CellState, Estimate, look, orphans, survey, tally
from phmrun.sweeps.view import Tracker

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
        (claimed.path / CLAIM).write_text('{"host": "far", "pid": 1, "space": "y", "token": "abc"}')
        assert look(created.plan.cells[4], created.runs_dir).state is CellState.RUNNING
        assert look(created.plan.cells[4], created.runs_dir).claimed
    assert statuses[1].reason == "no memory"
    assert tally(statuses) == {
        CellState.DONE: 1, CellState.RUNNING: 1, CellState.INTERRUPTED: 1, CellState.QUEUED: 2,
        CellState.FAILED: 1
    }  # fmt: skip


def test_the_summary_has_steps_and_the_time_of_whole_runs(at):
    created = at()
    with created.put(0, State.RUNNING, step=25, seconds=10.0).lock():
        summary = Tracker(created.statuses(), created.runs_dir, 1).summary()
    # 40 s each by the pace of the first: 30 s are left of it, and five others wait.
    assert summary == "0 of 6 done · 1 running · step 25 of 100 · about 4 min left"


def test_time_besides_training_counts(at, monkeypatch):
    created = at()
    run = created.put(0, State.RUNNING)
    moments = itertools.chain((0.0,), itertools.repeat(120.0))
    monkeypatch.setattr("phmrun.ledger.segment.time", SimpleNamespace(monotonic=lambda: next(moments)))
    Segment(run, {}).end("done")
    run.set_state(State.DONE, seconds=90.0, step=100)
    estimate = Estimate(created.statuses())
    assert estimate.total(created.statuses(), 2) == 5 * 120 / 2
    for _ in range(8):  # of a slower machine, say: the last eight count
        estimate.learn(created.statuses()[0], 150.0)
    assert estimate.total(created.statuses(), 2) == 5 * 150 / 2
