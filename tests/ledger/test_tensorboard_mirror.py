"""A mirror is read back by TensorBoard, and holds what the run directory holds."""

import sys

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.tensorboard_mirror import write_tensorboard


@pytest.fixture
def run(tmp_path):
    run = Run.create(tmp_path / "runs", "sva-x", "task: sva\ndata: {name: builtin}\ntraining: {max_steps: 20}\n")
    run.set_state(State.RUNNING)
    for step in (10, 20):
        run.history.append({"step": step, "time": step / 2, "val/loss": 3.0 - step / 10, "val/accuracy": step / 40})
    run.add_metrics({"test/accuracy": {"value": 62.5, "signature": "x"}})
    run.set_state(State.DONE)
    return run


def test_tensorboard_reads_history_and_scores_in_the_units_of_tables(run):
    for _ in range(2):  # the second takes the place of the first
        events = EventAccumulator(str(write_tensorboard(run)))
        events.Reload()
        read = {name: [(s.step, s.value) for s in events.Scalars(name)] for name in events.Tags()["scalars"]}
        curves = {"val/loss": [(10, 2.0), (20, 1.0)], "val/accuracy": [(10, 25.0), (20, 50.0)]}
        assert read == {**curves, "test/accuracy": [(20, 62.5)]}
    assert not list(run.path.glob(".*.tmp"))


def test_a_missing_package_is_named_and_nothing_is_written(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(PhmrunError, match="tensorboard' is not installed"):
        write_tensorboard(run)
    assert not (run.path / "tensorboard").exists()
