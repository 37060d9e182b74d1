"""Runs of scripts: records, failures, interruptions, limits."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from phmrun.config import Source, nested, resolve
from phmrun.errors import PhmrunError
from phmrun.ledger import Run, State
from phmrun.tasks.script import runner
from phmrun.tasks.script.config import ScriptExperiment

WRITES = """
import json, sys
from pathlib import Path
out, seed = Path(sys.argv[1]), int(sys.argv[2])
print("training with", seed)
(out / "scores.json").write_text(json.dumps({"val/accuracy": 80 + seed, "test/accuracy": 90 + seed, "parameters": 12}))
"""
COMMAND = "python job.py {run} {seed}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(script, command=COMMAND, **values):
    Path("job.py").write_text(script)
    values = {"command": command, "inputs": ["job.py"], "training.monitor": "accuracy", **values}
    config = resolve(ScriptExperiment, [Source("test", nested(values))], None)
    path = runner.RUNNER.run(config.config, origin=config.origin, runs_dir=Path("runs"), plugins={})
    return Run(path)


def only_run():
    (path,) = [path for path in Path("runs").iterdir() if not path.name.startswith(".")]
    return Run(path)


def test_environment_command_exit_code_log_inputs_and_scores_are_on_record():
    done = run(WRITES, seed=3, **{"hardware.threads": 2})
    assert done.status.state is State.DONE
    about = {"task": "script", "data": "job", "layer": "dense", "network": "dense", "seed": 3, "parameters": 12}
    assert done.status.about == about
    scores = done.metrics()
    assert scores["test/accuracy"]["value"] == 93.0
    assert scores["validation/best"]["value"] == 83.0
    assert "training with 3" in (done.path / "script.log").read_text()
    (segment,) = done.environment()
    assert (segment["state"], segment["threads"], segment["script"]["exit_code"]) == ("done", 2, 0)
    assert segment["script"]["command"] == [sys.executable, "job.py", str(done.path.absolute() / "script"), "3"]
    (file,) = done.data().splits["inputs"].files
    assert done.fingerprints() == {"input job.py": file.sha256}
    done.manifest.check_all()


def test_a_run_that_is_done_is_not_run_again():
    first = run(WRITES)
    written = (first.path / "script" / "scores.json").stat().st_mtime_ns
    assert run(WRITES).id == first.id
    assert (first.path / "script" / "scores.json").stat().st_mtime_ns == written


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("pass", "written no scores"),
        ("import sys; print('no such file: x'); sys.exit(1)", "exit code 1: no such file: x"),
        ("import os; os.kill(os.getpid(), 9)", r"ended by signal 9 .*\(out of memory\?\)"),
        ("OUT.write_text('97.1')", "there is no score"),
        ("OUT.write_text('{')", "cannot be read"),
        ("OUT.write_text('{\"parameters\": 3}')", "there is no score"),
        ("OUT.write_text('{\"accuracy\": 97.1}')", "'accuracy' is not a valid name of a score"),
        ('OUT.write_text(\'{"test/accuracy": "97.1"}\')', "not a number"),
        ("OUT.write_text('{\"test/accuracy\": NaN}')", "not a finite number"),
        ('OUT.write_text(\'{"test/accuracy": {"value": 1, "item": [1]}}\')', "other keys than a value"),
        ('OUT.write_text(\'{"test/accuracy": {"value": 1, "items": [1, 0]}}\')', "its items give 50"),
        ('OUT.write_text(\'{"test/accuracy": {"items": [0.5, -1]}}\')', "natural numbers"),
        ("OUT.write_text('{\"test/accuracy\": 0.971}')", "a fraction; shares are in percent"),
        ("OUT.write_text('{\"test/las-long\": 1.0}')", "a fraction; shares are in percent"),
        ("(RUN / 'scores.json').mkdir()", "cannot be read: not a file"),
        ('OUT.write_text(\'{"test/accuracy": 97, "test/accuracy": 98}\')', "'test/accuracy' occurs twice"),
    ],
)
def test_scripts_that_fail_give_one_error_and_keep_their_files(script, message):
    head = "import sys, pathlib\nRUN = pathlib.Path(sys.argv[1]); OUT = RUN / 'scores.json'\n(RUN / 'kept').touch()\n"
    with pytest.raises(PhmrunError, match=message) as failed:
        run(head + script)
    assert failed.value.code == 4
    record = only_run()
    assert record.status.state is State.FAILED
    assert record.status.reason == failed.value.what
    assert record.status.diverged == ("NaN" in script)
    assert (record.path / "script" / "kept").is_file()
    assert record.environment()[-1]["state"] == "failed"
    assert record.metrics() == {}


def test_a_script_that_hangs_is_interrupted_at_the_time_limit_and_resumes():
    script = """
import sys, time, pathlib
run = pathlib.Path(sys.argv[1])
if not (run / "half").exists():
    (run / "half").touch()
    time.sleep(600)
(run / "scores.json").write_text('{"test/accuracy": 1}')
"""
    stopped = run(script, **{"training.max_time": "00:00:01"})
    assert stopped.status.state is State.INTERRUPTED
    assert stopped.status.reason == "stopped by the time limit 00:00:01"
    assert stopped.environment()[-1]["script"]["exit_code"] == -signal.SIGTERM
    done = run(script, **{"training.max_time": "00:09:00"})
    assert (done.id, done.status.state) == (stopped.id, State.DONE)
    assert [segment["state"] for segment in done.environment()] == ["interrupted", "done"]


SLEEPS = """
import os, sys, time, pathlib
run = pathlib.Path(sys.argv[1])
(run / "pid").write_text(str(os.getpid()))
(run / "ready").touch()
time.sleep(600)
"""


def started():
    """A run in a process of its own, whose script waits, and the script's process."""
    Path("job.py").write_text(SLEEPS)
    command = [sys.executable, "-m", "phmrun", "train", "script", "--set", f"command={COMMAND}"]
    # A shell starts background jobs, and so a test suite among them, with SIGINT ignored.
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    phmrun = subprocess.Popen(command, preexec_fn=heed, **pipes)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(Path("runs").glob("*/script/ready")):
        assert phmrun.poll() is None, phmrun.communicate()
        time.sleep(0.05)
    return phmrun, int((only_run().path / "script" / "pid").read_text())


def gone(pid):
    """True once a process has ended."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.05)
    return False


def test_processes_that_the_script_leaves_behind_are_killed():
    left = "import subprocess\nprint(subprocess.Popen(['sleep', '600']).pid)\n"
    assert gone(int((run(left + WRITES).path / "script.log").read_text().split()[0]))


@pytest.mark.parametrize(("which", "reason"), [(signal.SIGINT, "by SIGINT"), (signal.SIGTERM, "by SIGTERM")])
def test_signals_reach_the_script_and_leave_the_run_interrupted(which, reason):
    phmrun, script = started()
    phmrun.send_signal(which)
    _, stderr = phmrun.communicate(timeout=60)
    assert phmrun.returncode == 128 + which
    assert gone(script)
    assert (only_run().status.state, only_run().status.reason) == (State.INTERRUPTED, reason)
    assert "Traceback" not in stderr


def test_the_script_ends_with_a_killed_phmrun_and_the_same_command_goes_on():
    phmrun, script = started()
    phmrun.kill()
    phmrun.communicate()
    assert gone(script)
    assert only_run().status.state is State.INTERRUPTED
    Path("job.py").write_text(WRITES)  # no input here, so the run stays the same
    command = [sys.executable, "-m", "phmrun", "train", "script", "--set", f"command={COMMAND}", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["run_id"] == only_run().id
    assert only_run().status.state is State.DONE
