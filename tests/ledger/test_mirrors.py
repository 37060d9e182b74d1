"""A mirror is read back by its own package, and holds what the run directory holds."""

import os
import sys

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.mirrors import write_mirror


@pytest.fixture
def run(tmp_path):
    run = Run.create(tmp_path / "runs", "sva-x", "task: sva\ndata: {name: builtin}\ntraining: {max_steps: 20}\n")
    run.set_state(State.RUNNING)
    for step in (10, 20):
        run.history.append({"step": step, "time": step / 2, "val/loss": 3.0 - step / 10, "val/accuracy": step / 40})
    run.update_metrics("test/accuracy", {"value": 62.5, "signature": "x"})
    run.set_state(State.DONE)
    return run


def _tensorboard(folder):
    module = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(folder))
    events.Reload()
    return {name: [(Scalar.step, Scalar.value) for Scalar in events.Scalars(name)] for name in events.Tags()["scalars"]}


def test_a_mirror_is_read_back_by_its_own_package(run):
    for _ in range(2):  # the second takes the place of the first
        folder = write_mirror(run, "tensorboard")
        assert folder == run.path / "tensorboard"
        figures = {"val/loss": [(10, 2.0), (20, 1.0)], "val/accuracy": [(10, 25.0), (20, 50.0)]}
        assert _tensorboard(folder) == {**figures, "test/accuracy": [(20, 62.5)]}  # one unit
    assert not list(run.path.glob(".*.tmp"))
    assert not any(str(os.getpid()) in path.name for path in run.path.iterdir())


def test_a_mirror_whose_package_is_missing_says_so_and_leaves_nothing(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.compat.proto.event_pb2", None)
    with pytest.raises(PhmrunError, match="a package that is not installed, or cannot be imported"):
        write_mirror(run, "tensorboard")
    assert not [path.name for path in run.path.iterdir() if "tensorboard" in path.name]
