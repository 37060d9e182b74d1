"""Each mirror is read back by its own package, and holds what the run directory holds."""

import json
import os
import subprocess
import sys

import pytest

from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.ledger.mirrors import MIRRORS, write_mirror


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


def _mlflow(folder):
    tracking = pytest.importorskip("mlflow.tracking")
    client = tracking.MlflowClient(tracking_uri=folder.as_uri())
    experiments = [item.experiment_id for item in client.search_experiments() if item.name.startswith("phmrun")]
    (actual,) = client.search_runs(experiments)
    assert actual.data.params["training.max_steps"] == "20"
    assert (actual.info.run_name, actual.info.status) == ("sva-x", "FINISHED")
    names = actual.data.metrics
    histories = {name: client.get_metric_history(actual.info.run_id, name) for name in names}
    return {name: sorted((item.step, item.value) for item in rows) for name, rows in histories.items()}


def _trackio(folder):
    script = (
        "import json; from trackio.sqlite_storage import SQLiteStorage as s; (p,) = s.get_projects(); "
        "print(json.dumps([p, s.get_runs(p), s.get_logs(p, 'sva-x'), s.get_run_config(p, 'sva-x')]))"
    )
    environment = {**os.environ, "TRACKIO_DIR": str(folder)}
    asked = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    project, runs, rows, config = json.loads(asked.stdout)
    assert (project.startswith("phmrun-"), runs, config["training.max_steps"]) == (True, ["sva-x"], 20)
    actual = {}
    for row in rows:
        for name in row.keys() - {"step", "timestamp"}:
            actual.setdefault(name, []).append((row["step"], row[name]))
    return actual


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.trackio] if name == "trackio" else []) for name in MIRRORS]
)
def test_a_mirror_is_read_back_by_its_own_package(name, run):
    pytest.importorskip("trackio.sqlite_storage" if name == "trackio" else name, exc_type=ImportError)
    for _ in range(2):  # the second takes the place of the first
        folder = write_mirror(run, name)
        assert folder == run.path / name
        actual = {"tensorboard": _tensorboard, "mlflow": _mlflow, "trackio": _trackio}[name](folder)
        figures = {"val/loss": [(10, 2.0), (20, 1.0)], "val/accuracy": [(10, 25.0), (20, 50.0)]}
        assert actual == {**figures, "test/accuracy": [(20, 62.5)]}  # one unit
    assert not list(run.path.glob(".*.tmp"))
    assert not any(str(os.getpid()) in path.name for path in run.path.iterdir())


def test_an_unknown_mirror(run):
    with pytest.raises(PhmrunError, match="no mirror 'tensorbord'"):
        write_mirror(run, "tensorbord")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (3, "a package that is not installed, or cannot be imported: cannot import name 'Volume'"),
        (1, "trackio could not write the mirror: cannot import name 'Volume'"),
    ],
)
def test_a_mirror_that_fails_says_why_and_leaves_nothing(run, monkeypatch, tmp_path, code, message):
    failing = tmp_path / "python"
    failing.write_text(f"#!/bin/sh\necho \"cannot import name 'Volume'\" >&2\nexit {code}\n")
    failing.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(failing))
    with pytest.raises(PhmrunError, match=message):
        write_mirror(run, "trackio")
    assert not [path.name for path in run.path.iterdir() if "trackio" in path.name]
