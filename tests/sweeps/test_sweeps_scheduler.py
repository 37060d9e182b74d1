"""Sweeps of light processes, killed, doubled and interrupted: every cell is carried out once, whatever comes."""

import _thread
import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from toy_planner import PROGRAM, planned, runs_of

from phmrun.files import last_lines
from phmrun.ledger import Run
from phmrun.sweeps.cell_status import look, survey
from phmrun.sweeps.executors import Job, ray_cluster, start_job
from phmrun.sweeps.scheduler import Workplace

PLANNER = Path(__file__).with_name("toy_planner.py")
SIX = {"task": "toy", "grid": {"model.width": [4, 6, 8]}, "seeds": 2}


class Sweep:
    """A sweep's file and its runs, with planners in processes of their own."""

    def __init__(self, file: str, runs_dir: Path) -> None:
        self.file, self.runs_dir = file, runs_dir
        self.plan = planned(file)
        self.workplace = Workplace(runs_dir, self.plan.sweep.name, program=PROGRAM)

    def start(self, slots: int = 2, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(PLANNER), self.file, str(self.runs_dir), str(slots), *more]
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )

    def finish(self, slots: int = 2, *more: str) -> tuple[int, str]:
        planner = self.start(slots, *more)
        out, _ = planner.communicate(timeout=120)
        return planner.returncode, out

    def states(self) -> list[str]:
        return [str(status.state) for status in survey(self.plan, self.runs_dir)]

    def starts(self) -> dict[str, list[int]]:
        """Steps done at each start of a run, by run."""
        actual = {}
        for name in runs_of(self.plan):
            path = self.runs_dir / name / "starts"
            actual[name] = [int(line.split()[1]) for line in path.read_text().splitlines()] if path.exists() else []
        return actual

    def results(self) -> dict[str, tuple[str, object]]:
        runs = [Run(self.runs_dir / name) for name in runs_of(self.plan)]
        return {run.id: ((run.path / "steps").read_text(), run.metrics()) for run in runs}

    def pids(self) -> list[int]:
        """The living processes of the runs."""
        holders = [look(cell, self.runs_dir).holder for cell in self.plan.cells]
        return [holder.pid for holder in holders if holder is not None]

    def wait_for(self, state: str, count: int) -> None:
        deadline = time.monotonic() + 20
        while self.states().count(state) < count:
            assert time.monotonic() < deadline, self.states()
            time.sleep(0.02)


@pytest.fixture
def sweep(written, tmp_path):
    def make(content, runs="runs"):
        return Sweep(written(content), tmp_path / runs)

    return make


def test_every_cell_is_run_once(sweep):
    created = sweep(SIX)
    code, out = created.finish()
    assert code == 0, out
    assert created.states() == ["done"] * 6
    assert list(created.starts().values()) == [[0]] * 6
    assert out.count("started ") == 6
    assert re.search(r"^done after \d+ s model\.width 4 · seed 1: test/score [\d.]+$", out, re.MULTILINE)
    before = created.results()
    assert created.finish() == (0, "")
    assert created.results() == before
    assert not list(created.runs_dir.glob("*/.claim"))


def test_failures_do_not_stop_the_others(sweep):
    created = sweep({"task": "toy", "grid": {"data.name": ["oom", "good", "bad", "killed", "fine"]}})
    code, out = created.finish()
    assert code == 5
    assert created.states() == ["failed", "done", "failed", "interrupted", "done"]
    assert re.search(r"^failed after \d+ s data\.name oom · seed 1: out of memory: no more$", out, re.MULTILINE)
    assert "data.name bad · seed 1: exit code 3: train.en:3: the line is empty\n" in out
    assert "killed by signal 9" in out
    statuses = survey(created.plan, created.runs_dir)
    assert statuses[2].reason == "exit code 3: train.en:3: the line is empty"
    assert last_lines(created.workplace.log(str(statuses[0].cell.run_id)), 1) == [
        "phmrun: error: out of memory: no more"
    ]
    code, out = created.finish()  # the failed ones are left alone, the one that was killed goes on
    assert (code, created.states()[3]) == (0, "done")
    assert out.count("started ") == 1
    assert created.starts()[str(statuses[3].cell.run_id)] == [0, 4]
    code, out = created.finish(2, "retry")
    assert created.states() == ["done", "done", "failed", "done", "done"]  # memory was enough this time
    assert (code, out.count("started ")) == (5, 2)


def test_two_planners_share_the_cells(sweep, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "0.02")
    created = sweep(SIX)
    planners = [created.start(2) for _ in range(2)]
    outs = [planner.communicate(timeout=60)[0] for planner in planners]
    assert [planner.returncode for planner in planners] == [0, 0]
    assert list(created.starts().values()) == [[0]] * 6
    assert sum(out.count("started ") for out in outs) == 6
    assert all(out.count("started ") >= 1 for out in outs)
    assert all(
        "in use by" not in last for name in runs_of(created.plan) for last in last_lines(created.workplace.log(name))
    )


def test_runs_outlive_their_planner_and_are_not_run_again(sweep, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "0.3")
    created = sweep({"task": "toy", "seeds": 3})
    first = created.start(2)
    created.wait_for("running", 2)
    while len(created.pids()) < 2 or first.pid in created.pids():  # until the runs hold their own locks
        time.sleep(0.02)
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    second = created.start(2)
    while created.states().count("done") < 1:
        assert len(created.pids()) <= 2  # what is left of the first planner takes the second one's slots
        time.sleep(0.05)
    out, _ = second.communicate(timeout=60)
    assert second.returncode == 0
    assert created.states() == ["done"] * 3
    assert list(created.starts().values()) == [[0]] * 3
    assert out.count("started ") == 1


def test_what_others_leave_unfinished_is_taken_over(sweep, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "0.05")
    created = sweep({"task": "toy"})
    first = created.start(1)
    created.wait_for("running", 1)
    second = created.start(1)
    while not created.starts().popitem()[1]:
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(first.pid, signal.SIGKILL)
    for pid in created.pids():
        os.kill(pid, signal.SIGKILL)
    first.communicate()
    out, _ = second.communicate(timeout=60)
    assert created.states() == ["done"]
    assert out.count("started ") == 1
    (steps,) = created.starts().values()
    assert len(steps) == 2
    assert steps[1] > 0


def test_an_interrupted_planner_takes_its_runs_with_it(sweep, monkeypatch):
    monkeypatch.setenv("FAKE_PACE", "0.06")
    created = sweep(SIX)
    planner = created.start(2)
    created.wait_for("running", 2)
    while not any(created.starts().values()):
        time.sleep(0.02)
    planner.send_signal(signal.SIGINT)
    planner.communicate(timeout=60)
    assert planner.returncode not in (0, 5)
    assert created.pids() == []
    assert set(created.states()) <= {"interrupted", "queued", "missing"}
    assert not list(created.runs_dir.glob("*/.claim"))
    monkeypatch.setenv("FAKE_PACE", "0.01")
    assert created.finish()[0] == 0
    assert created.states() == ["done"] * 6


@pytest.mark.long
def test_killed_at_random_moments_it_ends_as_if_undisturbed(sweep, monkeypatch):
    content = {"task": "toy", "grid": {"model.width": [4, 6, 8]}, "seeds": 2}
    undisturbed = sweep(content, "undisturbed")
    assert undisturbed.finish(4)[0] == 0
    monkeypatch.setenv("FAKE_PACE", "0.03")
    draw = random.Random(1)
    created = sweep(content, "disturbed")
    kills = 0
    while kills < 10 and set(created.states()) != {"done"}:
        planner = created.start(2)
        time.sleep(draw.uniform(0.4, 1.2))
        victims = [planner.pid, *(pid for pid in created.pids() if draw.random() < 0.7)]
        for pid in victims:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        planner.communicate()
        kills += 1
    assert created.finish()[0] == 0
    assert set(created.states()) == {"done"}
    assert created.results() == undisturbed.results()
    assert kills >= 3
    for name, steps in created.starts().items():
        assert steps == sorted(steps), name  # each start goes on where the one before was stopped


def test_a_run_directory_that_vanishes_or_is_damaged_fails_its_cell_alone(sweep):
    names = ["removed", "good", "replaced", "damaged", "taken", "fine"]
    created = sweep({"task": "toy", "grid": {"data.name": names}})
    (created.runs_dir).mkdir()
    (created.runs_dir / str(created.plan.cells[4].run_id)).touch()  # a file in the place of the directory
    code, out = created.finish()
    assert code == 5, out
    assert "Traceback" not in out
    assert [state == "done" for state in created.states()] == [name in ("good", "fine") for name in names]
    for name in ("removed", "replaced", "damaged", "taken"):
        assert re.search(rf"^failed after \d+ s data\.name {name} · seed 1", out, re.MULTILINE), name
    assert not list(created.runs_dir.glob("*/.claim"))


def test_a_task_that_is_canceled_while_its_run_starts_leaves_no_process(tmp_path, monkeypatch):
    def start(job, where):
        child = start_job(job, where)
        _thread.interrupt_main()  # by which Ray cancels
        return child

    monkeypatch.setattr(ray_cluster, "start_job", start)
    assert ray_cluster.carry_out(Job("run", ("sleep", "60"), tmp_path / "output.log")) == -signal.SIGINT
