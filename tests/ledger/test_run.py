"""The run directory: its states, its files, how it is found and removed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Run, State

CONFIG = """\
task: nmt
seed: 3
data: {name: multi30k, source: en}
layer: {structure: phm, n: 4, application: auto, learn: true}
"""
ID = "nmt-multi30k-phm-3-0123456789ab"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run.create(tmp_path / "runs", ID, CONFIG)


def test_create_writes_config_and_status(run: Run) -> None:
    assert run.id == ID
    assert run.config_path.read_text() == CONFIG
    assert sorted(path.name for path in run.path.iterdir()) == ["config.yaml", "status.json"]
    status = run.status
    assert status.state is State.QUEUED
    assert status.about == {
        "task": "nmt", "data": "multi30k", "layer": "phm n=4", "network": "phm n=4", "seed": 3
    }  # fmt: skip


def test_states_keep_times_and_facts(run: Run) -> None:
    with run.lock():
        first = run.set_state(State.RUNNING)
        assert first.started is not None
        assert first.ended is None
        run.set_state(State.RUNNING, step=20, seconds=1.5, tokens=400)
        done = run.set_state(State.DONE, "as many steps as asked for")
    assert run.status == done
    assert (done.step, done.seconds, done.started, done.about["tokens"]) == (20, 1.5, first.started, 400)
    assert done.reason == "as many steps as asked for"
    assert done.ended is not None
    assert done.ended.endswith("Z")
    with run.lock():
        assert run.set_state(State.RUNNING).ended is None


def test_running_without_a_living_process_is_interrupted(run: Run) -> None:
    script = (
        "import os, sys; from pathlib import Path; from phmrun.ledger import Run, State\n"
        "run = Run(Path(sys.argv[1])); run.lock().acquire(); run.set_state(State.RUNNING, step=5)\n"
        "print(run.status.state.value, flush=True); os.kill(os.getpid(), 9)\n"
    )
    process = subprocess.run([sys.executable, "-c", script, str(run.path)], capture_output=True, text=True, check=False)
    assert process.stdout == "running\n"
    assert json.loads(run.status_path.read_text())["state"] == "running"
    assert (run.path / "lock").exists()
    status = run.status
    assert (status.state, status.step) == (State.INTERRUPTED, 5)
    assert status.reason == "its process died"
    with run.lock():
        assert run.set_state(State.RUNNING).state is State.RUNNING
        assert run.status.state is State.RUNNING


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"state": "asleep"}', '{"state": "done", "step": "x"}'])
def test_damaged_status_is_a_data_error(run: Run, content: str) -> None:
    run.status_path.write_text(content)
    with pytest.raises(PhmrunError) as damaged:
        _ = run.status
    assert damaged.value.code == ExitCode.DATA


def test_metrics_of_rival_processes_are_all_kept(run: Run) -> None:
    script = (
        "import sys; from pathlib import Path; from phmrun.ledger import Run\n"
        "for i in range(20): Run(Path(sys.argv[1])).add_metrics({f'{sys.argv[2]}/{i}': i})\n"
    )
    rivals = [subprocess.Popen([sys.executable, "-c", script, str(run.path), name]) for name in "abc"]
    assert [rival.wait() for rival in rivals] == [0, 0, 0]
    assert run.metrics().keys() == {f"{name}/{i}" for name in "abc" for i in range(20)}


@pytest.mark.parametrize("reference", [ID, ID[:9], "0123", "0123456789ab"])
def test_find_by_name(run: Run, reference: str) -> None:
    Run.create(run.path.parent, "style-builtin-dense-1-ffffffffffff", "task: style")
    assert Run.find(run.path.parent, reference).path == run.path


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("nmt-multi", "2 runs begin"),
        ("nmt-multi30k-phn-3-0123456789ab", "Did you mean"),
        ("latets", "Did you mean latest?"),
        ("zzz", "runs list"),
        ("", ""),
    ],
)
def test_find_what_is_not_one_run(run: Run, reference: str, message: str) -> None:
    Run.create(run.path.parent, "nmt-multi30k-dense-1-aaaaaaaaaaaa", CONFIG)
    with pytest.raises(PhmrunError) as refused:
        Run.find(run.path.parent, reference)
    assert refused.value.code == ExitCode.USAGE
    assert message in str(refused.value)


def test_removed_run_leaves_nothing(run: Run) -> None:
    run.checkpoints.mkdir()
    (run.checkpoints / "last.ckpt").write_bytes(b"x")
    run.access.remove()
    assert list(run.path.parent.iterdir()) == []


def test_remove_is_refused_while_locked(run: Run) -> None:
    with run.lock(), pytest.raises(PhmrunError, match="in use by process"):
        run.access.remove()
    assert run.config_path.exists()


def test_run_that_is_moved_while_it_trains_says_so_and_is_not_begun_anew(tmp_path):
    run = Run.create(tmp_path, "toy-lost-dense-1-0123456789ab", "task: toy\n")
    with run.lock():
        run.set_state(State.RUNNING)
        run.path.rename(tmp_path / "moved")
        for write in (lambda: run.history.append({"step": 1}), lambda: run.set_state(State.FAILED)):
            with pytest.raises(PhmrunError, match="was moved or removed") as caught:
                write()
            assert "Move the directory back" in str(caught.value.hint)
    assert not run.path.exists()


def test_removing_a_linked_run_removes_the_link_alone(tmp_path):
    run = Run.create(tmp_path / "elsewhere", "toy-lost-dense-1-0123456789ab", "task: toy\n")
    runs = tmp_path / "runs"
    runs.mkdir()
    link = runs / run.id
    link.symlink_to(run.path)
    Run.find(runs, run.id).access.remove()
    assert not link.is_symlink()
    assert run.status_path.is_file()


@pytest.mark.parametrize("name", ["predictions", "history.jsonl", "train.log"])
def test_nothing_is_written_through_a_link_out_of_a_run(tmp_path, name):
    run = Run.create(tmp_path / "runs", "toy-lost-dense-1-0123456789ab", "task: toy\n")
    (tmp_path / "elsewhere").mkdir()
    (run.path / name).symlink_to(tmp_path / "elsewhere")
    writers = (
        lambda: run.write(run.predictions / "test.txt", "a\n"),
        lambda: run.begin('{"task":"toy"}'),
    )
    for write in writers:
        with pytest.raises(PhmrunError, match="leads out of the run"):
            write()
    assert not list((tmp_path / "elsewhere").iterdir())
    (run.path / name).unlink()
    (run.path / name).symlink_to(run.config_path)  # a link within the run
    run.write(run.path / "items.json", "{}\n")


def ended_run(directory: Path, name: str, state: State, moment: str) -> Run:
    """Run whose status says that it ended at a moment."""
    run = Run.create(directory, f"nmt-multi30k-dense-{name}", CONFIG)
    status = {**run.status.to_json(), "state": state.value, "ended": moment, "updated": moment}
    run.status_path.write_text(json.dumps(status), encoding="utf-8")
    return run


def test_latest_is_the_run_that_ended_last(tmp_path: Path) -> None:
    with pytest.raises(PhmrunError, match="there is no run 'latest'"):
        Run.find(tmp_path, "latest")
    running = Run.create(tmp_path, "nmt-multi30k-dense-1-000000000001", CONFIG)
    with running.lock():
        running.set_state(State.RUNNING)
        with pytest.raises(PhmrunError, match=r"no run is done or interrupted yet(.|\n)*000000000001 \(running\)"):
            Run.find(tmp_path, "latest")
        last = ended_run(tmp_path, "2-000000000002", State.INTERRUPTED, "2026-01-02T00:00:00Z")
        ended_run(tmp_path, "3-000000000003", State.DONE, "2026-01-01T00:00:00Z")
        ended_run(tmp_path, "4-000000000004", State.FAILED, "2026-01-03T00:00:00Z")
        ended_run(tmp_path, "5-000000000005", State.DONE, "2026-01-04T00:00:00Z").status_path.write_text("{")
        running.set_state(State.RUNNING, step=5)
        assert Run.find(tmp_path, "latest").path == last.path
    assert Run.find(tmp_path, "latest").path == running.path  # its process is gone: interrupted last
