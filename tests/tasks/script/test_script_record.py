"""``phmrun.record``: a block of Python as a run."""

import subprocess
import sys
from pathlib import Path

import pytest

import phmrun
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.status import State
from phmrun.tasks.script.scores import Scores


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def only_run():
    (path,) = [path for path in Path("runs").iterdir() if not path.name.startswith(".")]
    return Run(path)


def test_settings_seed_environment_scores_items_and_history_are_on_record():
    settings = {"layer": {"structure": "phm", "n": 4}, "lr": 0.001, "data": "digits"}
    with phmrun.record("vit-digits", settings=settings, seed=2) as run:
        assert (run.done, run.resumed) == (False, False)
        (run.directory / "checkpoint").write_text("1")
        run.log(10, train__loss=0.5)
        run.parameters(64)
        run.score("test/accuracy", 50.0, items=[1, 0])
    with pytest.raises(PhmrunError, match="the block of this run has ended"):
        run.parameters(63)
    assert run.id.startswith("script-vit-digits-phm-2-")
    record = only_run()
    assert record.status.state is State.DONE
    about = {"task": "script", "data": "vit-digits", "layer": "phm n=4", "network": "phm n=4", "seed": 2}
    assert record.status.about == {**about, "parameters": 64}
    assert record.metrics()["test/accuracy"]["value"] == 50.0
    assert [row["train/loss"] for row in record.history.read()] == [0.5]
    assert record.environment()[-1]["state"] == "done"
    (row,) = phmrun.load_results("runs")
    assert (row["layer"], row["score"], row["value"]) == ("phm n=4", "test/accuracy", 50.0)


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (ValueError("no such file"), State.FAILED, "ValueError: no such file"),
        (KeyboardInterrupt(), State.INTERRUPTED, "by SIGINT"),
        (SystemExit(1), State.INTERRUPTED, "the process was exited"),
    ],
)
def test_errors_and_interruptions_are_the_state_of_the_run_which_goes_on(error, state, reason):
    def work():
        with phmrun.record("job") as run:
            (run.directory / "half").touch()
            raise error

    with pytest.raises(type(error)):
        work()
    assert (only_run().status.state, only_run().status.reason) == (state, reason)
    assert only_run().environment()[-1]["state"] == state.value
    with phmrun.record("job") as run:
        assert run.resumed
        assert (run.directory / "half").exists()
        run.score("test/accuracy", 1)
    assert only_run().status.state is State.DONE


def test_a_done_run_confirms_its_scores_and_refuses_others():
    for value in (1.5, 1.5):
        with phmrun.record("job") as run:
            run.score("test/accuracy", value)
    assert run.done
    with pytest.raises(PhmrunError, match=r"test/accuracy is 2\.0, and 1\.5 is on record"), phmrun.record("job") as run:
        run.score("test/accuracy", 2)
    assert only_run().metrics()["test/accuracy"]["value"] == 1.5
    assert only_run().status.state is State.DONE
    with phmrun.record("job", restart=True) as run:
        run.score("test/accuracy", 2)
    assert only_run().metrics()["test/accuracy"]["value"] == 2


def test_inputs_and_settings_make_other_runs_and_missing_inputs_are_named():
    Path("data").write_text("1")
    ids = []
    for settings, content in ({}, "1"), ({"lr": 1}, "1"), ({"lr": 1}, "2"):
        Path("data").write_text(content)
        with phmrun.record("job", settings=settings, inputs=["data"]) as run:
            run.score("test/accuracy", 1)
        ids.append(run.id)
    assert len(set(ids)) == 3
    with pytest.raises(PhmrunError, match="the input does not exist"), phmrun.record("job", inputs=["none"]):
        pass


@pytest.mark.parametrize("end", ["sys.exit(1)", "raise ValueError", "run.score('test/accuracy', 2)"])
def test_a_fork_records_nothing(end):
    code = (
        "import os, sys, phmrun\n"
        "with phmrun.record('job') as run:\n"
        "    run.score('test/accuracy', 1)\n"
        f"    if not os.fork():\n        {end}\n"
        "    else:\n        os.wait()\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert (only_run().status.state, only_run().metrics()["test/accuracy"]["value"]) == (State.DONE, 1)
    only_run().manifest.check_all()


def test_a_replaced_score_has_no_items_of_the_one_before():
    scores = Scores()
    scores.add("test/accuracy", None, [1, 0])
    scores.add("test/accuracy", 40.0)
    assert not scores.items
