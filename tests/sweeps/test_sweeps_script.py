"""Sweeps of any script: plan, exactly once, killed and continued, tuned, decided, stored."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from forks import completed

from phmrun.ledger import Run
from phmrun.ledger.status import State

SCRIPT = """
import argparse, json, random
from pathlib import Path

parser = argparse.ArgumentParser()
for name in ("layer", "n", "lr", "seed", "out"):
    parser.add_argument(f"--{name}")
a = parser.parse_args()
with Path("starts.txt").open("a") as starts:
    starts.write(f"{a.layer} {a.seed} {a.lr}\\n")
noise = random.Random(f"{a.layer} {a.seed}").random()
score = 90 + noise - (10 if a.layer == "low-rank" else 0)
scores = {"val/accuracy": 100 - abs(float(a.lr) - 0.01), "test/accuracy": score}
Path(a.out, "scores.json").write_text(json.dumps(scores))
"""
SWEEP = {
    "task": "script",
    "base": {
        "command": "python job.py --layer {layer.structure} --n {layer.n|1} --lr {lr|0.1} --seed {seed} --out {run}",
        "inputs": ["job.py"],
        "training": {"monitor": "accuracy"},
    },
    "grid": {"layer": ["dense", {"structure": "phm", "n": 4}]},
    "seeds": 2,
}


@pytest.fixture
def phmrun(tmp_path, monkeypatch):
    """Run phmrun in a folder with the script; returns standard output."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("job.py").write_text(SCRIPT)

    def call(*arguments, code=0):
        others = 10 if arguments[0] in ("sweep", "runs") and code != 2 and "--plan" not in arguments else 0
        done = completed(arguments, Path.cwd(), others=others)
        assert done.returncode == code, done.stderr
        return done.stdout if code == 0 else done.stderr

    return call


def written(**changes):
    settings = {key: changes.pop(key) for key in ("command", "scores", "training") if key in changes}
    Path("sweep.yaml").write_text(yaml.safe_dump({**SWEEP, **changes, "base": {**SWEEP["base"], **settings}}))
    return "sweep.yaml"


def starts():
    return sorted(Path("starts.txt").read_text().splitlines())


def test_cells_run_exactly_once_and_make_a_table_verified_and_stored(phmrun):
    Path("own.yaml").write_text("training: {monitor: accuracy}\n")
    phmrun("sweep", written(config=["own.yaml"]), "--jobs", "2")
    phmrun("sweep", "sweep.yaml")
    assert starts() == ["dense 1 0.1", "dense 2 0.1", "phm 1 0.1", "phm 2 0.1"]
    _, cell = json.loads(phmrun("table", "sweep.yaml", "--json"))["cells"]
    assert (cell["layer"], cell["verdict"]) == ("phm n=4", "different")
    assert "whole" in phmrun("verify", "runs", "--json")
    phmrun("results", "add", "sweep.yaml", "--to", "results/mine")
    assert len(list(Path("results/mine").glob("script-job-*.json"))) == 4
    phmrun("results", "restore", "results", "--runs-dir", "restored")
    stored = json.loads(phmrun("table", "results/mine/sweep.yaml", "--runs-dir", "restored", "--json"))
    assert stored["cells"][1]["verdict"] == "different"  # beside a copy of own.yaml, without the script
    Path("results/mine/sweep.yaml").write_text(Path("sweep.yaml").read_text() + "title: another\n")
    again = completed(["results", "add", "sweep.yaml", "--to", "results/mine"], Path.cwd())
    assert "results/mine/sweep.yaml stays as it is" in again.stderr
    phmrun("report", "sweep.yaml", "--out", "report")
    assert "phm n=4" in Path("report.md").read_text()
    (run,) = Path("runs").glob("script-job-phm-2-*")
    again = json.loads(phmrun("runs", "reproduce", run.name, "--json"))
    assert again["identical"]


def test_placeholders_that_a_cell_lacks_are_faults_of_the_plan(phmrun):
    grid = {"layer": ["dense"], "momentum": [0.9]}
    shown = phmrun("sweep", written(grid=grid, command="python job.py {momentun} {layer.structure}", seeds=1), code=2)
    assert "no value for {momentun}" in shown
    assert "Did you mean 'momentum'?" in shown
    assert not Path("starts.txt").exists()


def test_invalid_trials_are_named_with_their_reason(phmrun):
    Path("sweep.yaml").write_text("task: sva\ntune: {training.monitr: [accuracy]}\n")
    assert "no such key; did you mean 'monitor'" in phmrun("sweep", "sweep.yaml", "--plan", code=2)


def test_failed_cells_end_in_code_five_with_the_scripts_last_line(phmrun):
    Path("job.py").write_text("raise SystemExit('no memory left')")
    shown = phmrun("sweep", written(seeds=1), code=5)
    assert "the script ended with exit code 1: no memory left" in shown
    assert len(list(Path("runs").glob("script-job-*"))) == 2


def test_a_sweep_killed_twice_trains_each_cell_once(phmrun):
    grid = {"layer": ["dense", "low-rank"]}
    sweep = ["sweep", written(grid=grid, seeds=4)]
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "start_new_session": True}
    for number in (1, 2):
        planner = subprocess.Popen([sys.executable, "-m", "phmrun", *sweep], **quiet)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and len(finished()) < number and planner.poll() is None:
            time.sleep(0.05)
        os.killpg(planner.pid, signal.SIGKILL)
        planner.wait()
    phmrun(*sweep)
    cells = json.loads(phmrun("table", sweep[1], "--json"))["cells"]
    assert {cell["layer"]: cell["verdict"] for cell in cells}["low-rank"] == "different"
    once = [f"{layer} {seed} 0.1" for layer in ("dense", "low-rank") for seed in range(1, 5)]
    assert set(once) <= set(starts())
    assert len(finished()) == len(set(starts()))


def finished():
    runs = [Run(path) for path in Path("runs").glob("script-*") if (path / "status.json").is_file()]
    return [run for run in runs if run.status.state is State.DONE]


def test_tuned_values_are_chosen_by_the_validation_score(phmrun):
    command = SWEEP["base"]["command"].replace("{lr|0.1}", "{lr}")
    phmrun("sweep", written(command=command, tune={"lr": [0.001, 0.01, 0.1]}))
    assert [line for line in starts() if line.startswith("dense 2")] == ["dense 2 0.01"]
    assert len([line for line in starts() if line.startswith("dense 1")]) == 3


def test_a_file_of_scores_shared_by_runs_is_a_fault_of_the_plan(phmrun):
    shown = phmrun("sweep", written(scores="scores.json"), "--jobs", "2", code=2)
    assert "several runs would share this file of scores" in shown
    assert "{run}/scores.json" in shown
    shown = phmrun("sweep", written(command="python job.py {layer.structure} {layer.n|1}"), code=2)
    assert "2 seeds would run the same command" in shown
    assert "{seed}" in shown
    assert not Path("starts.txt").exists()


def test_a_row_pools_the_seeds_of_a_script_that_chose_different_values(phmrun):
    Path("job.py").write_text(SCRIPT.replace("- 0.01", "- (0.1 if a.seed == '3' else 0.01)"))
    phmrun("sweep", written(seeds=3, tune={"lr": [0.001, 0.01, 0.1]}, grid={"layer": ["dense"]}))
    (cell,) = json.loads(phmrun("table", "sweep.yaml", "--json"))["cells"]
    chosen = [yaml.safe_load(Path("runs", run, "config.yaml").read_text())["settings"]["lr"] for run in cell["runs"]]
    assert (cell["seeds"], chosen) == (2, [0.01, 0.1])


def test_failed_trials_lose_and_a_row_without_any_other_fails_alone(phmrun):
    fails = "\nif float(a.lr) > 1 or a.layer == 'low-rank': scores['val/accuracy'] = float('nan')\n"
    Path("job.py").write_text(SCRIPT.replace("\nPath(a.out", f"{fails}Path(a.out"))
    command = SWEEP["base"]["command"].replace("{lr|0.1}", "{lr}")
    changes = {"command": command, "tune": {"lr": [0.001, 0.01, 1e39]}, "grid": {"layer": ["dense", "low-rank"]}}
    assert "at least 8 runs left" in phmrun("sweep", written(**changes), "--plan")
    shown = phmrun("sweep", "sweep.yaml", code=5)
    assert "val/accuracy 100.0" in shown  # of the trial that wins, not its test score
    assert "low-rank · seed 1 and 1 more: no trial of layer low-rank · seed 1 is done with val/accuracy" in shown
    assert [line for line in starts() if " 2 " in line] == ["dense 2 0.01"]
    assert "4 cells: 2 done · 2 failed · 6 trials: 2 done · 4 failed" in phmrun("sweep", "sweep.yaml", "--plan")
    phmrun("report", "sweep.yaml", "--out", "report")
    assert "6 trials: 2 done · 4 failed." in Path("report.md").read_text()
