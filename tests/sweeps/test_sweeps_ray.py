"""Runs as tasks of a small Ray cluster on this machine."""

import time

import pytest
from toy_planner import PROGRAM, planned

from phmrun.errors import PhmrunError
from phmrun.sweeps.cell_status import CellState, look, survey
from phmrun.sweeps.scheduler import Scheduler, Workplace

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def cluster():
    """Two workers."""
    ray.init(num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


@pytest.fixture
def sweep(written, tmp_path, cluster):
    def make(names):
        created = planned(written({"task": "toy", "grid": {"data.name": names}}))
        return created, Workplace(tmp_path / "runs", created.sweep.name, program=PROGRAM)

    return make


def executor(**options):
    from phmrun.sweeps.executors.ray_cluster import RayExecutor

    return RayExecutor(**options)


def test_cells_are_tasks(sweep):
    created, workplace = sweep(["good", "oom", "fine", "bad"])
    chosen = executor()
    assert chosen.slots == 2
    events = []
    statuses = survey(created, workplace.runs_dir)
    Scheduler(statuses, workplace, chosen, watch=lambda event: events.append(event) if event else None).run()
    assert [str(status.state) for status in survey(created, workplace.runs_dir)] == ["done", "failed", "done", "failed"]
    assert {event.code for event in events if event.code} == {3, 4}
    assert chosen.room() == 2


def test_stopping_interrupts_the_runs(sweep, monkeypatch):
    created, workplace = sweep(["good"])
    # The steps never end by themselves, however late the cancelling arrives.
    monkeypatch.setattr(workplace, "program", ("env", "FAKE_PACE=60", "FAKE_DELAY=0", *PROGRAM))
    chosen = executor(jobs=1)
    (cell,) = created.cells

    def watch(event):
        if (workplace.runs_dir / str(cell.run_id) / "starts").exists():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Scheduler(survey(created, workplace.runs_dir), workplace, chosen, watch=watch).run()
    # Ray cancels in the background: on a busy machine the process ends some seconds later.
    for _ in range(300):
        if look(cell, workplace.runs_dir).state is not CellState.RUNNING:
            break
        time.sleep(0.1)
    assert look(cell, workplace.runs_dir).state is CellState.INTERRUPTED
    assert chosen.room() == 1


def test_a_cluster_that_is_too_small(cluster):
    with pytest.raises(PhmrunError, match="no job fits: it takes 1 CPUs and 2 GPUs"):
        executor(gpus=2)
    assert executor(cpus=0.5).slots == 4
    assert executor(jobs=1).slots == 1
