"""``phmrun sweep`` on the command line; runs are light stand-ins, except in one real sweep."""

import json
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from forks import forked_runs
from tiny_experiments import write_corpus

from phmrun.cli.app import main
from phmrun.errors import ExitCode
from phmrun.statistics.welch import detectable_deviations

FOUR = {
    "title": "A toy",
    "task": "toy",
    "grid": {"layer": ["dense", {"structure": "phm", "n": 3}], "model.width": [6, 4]},
}


def test_the_plan(phmrun, written):
    tuned = written({"task": "toy", "tune": {"model.width": [4, "wide"]}})
    assert phmrun(tuned, "--plan").exit_code == 2  # a trial is invalid
    file = written({**FOUR, "seeds": 2, "include": [{"layer": "dense", "model.width": 6}]})
    result = phmrun(file, "--plan")
    assert result.exit_code == 2  # a cell is invalid
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["phm", "n=3", "6", "12", "2", "2", "missing"] in rows
    assert ["phm", "n=3", "4", "–", "2", "2", "invalid"] in rows
    assert ["dense", "6", "36", "2", "4", "missing"] in rows  # two seeds, each of which stands twice
    assert "10 cells: 8 missing · 2 invalid · 2 the same experiment as another · remaining" in result.stdout
    assert "invalid: layer phm n=3 · model.width 4 · seed 1 and 1 more: n = 3 does not divide 4" in result.stderr
    assert phmrun(file, "--dry-run").stdout == result.stdout
    # Each of the two dense rows has one other row.
    assert f"differences from {detectable_deviations(2, 1):.1f} deviations" in result.stdout


def test_a_sweep_runs_and_says_how_it_ended(phmrun, written):
    file = written(FOUR)
    result = phmrun(file, "--only", "layer=dense", "--jobs", "2")
    assert (result.exit_code, result.stdout) == (0, "2 cells: 2 done\n")
    planned = phmrun(file, "--plan").stdout
    assert "4 cells: 2 done · 1 missing · 1 invalid · about 0 s left" in planned
    facts = json.loads(phmrun(file, "--json").stdout)
    assert facts["counts"] == {"done": 3, "invalid": 1}
    assert facts["cells"][0]["metrics"]["test/score"]["signature"] == "toy"
    result = phmrun(file, "--seeds", "2")
    assert (result.exit_code, result.stdout) == (5, "8 cells: 6 done · 2 invalid\n")


def test_a_trial_without_its_data_ends_the_sweep(phmrun, written):
    result = phmrun(written({"task": "toy", "tune": {"data.name": ["builtin", "lost"]}}))
    assert (str(result.exception), result.exception.code) == ("the dataset 'lost' is not on this machine", 3)


def test_a_trial_that_cannot_start_ends_the_sweep_with_the_reason(phmrun, written, tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/.sweeps").touch()  # a file in the place of the folder
    error = phmrun(written({"task": "toy", "tune": {"model.width": [4]}})).exception
    assert (error.what.partition(": ")[0], error.code) == ("the trial seed 1 · model.width 4 could not start", 5)


def test_at_the_time_limit_a_tuned_sweep_tells_how_far_it_is(phmrun, written, monkeypatch):
    notes = []
    monkeypatch.setattr("phmrun.sweeps.execution.note", notes.append)
    result = phmrun(written({"task": "toy", "tune": {"model.width": [4, 6]}}), "--hours", "0", "--json")
    assert result.exit_code == 0, repr(result.exception)
    assert json.loads(result.stdout)["trials"] == {"missing": 2}
    assert [note.startswith("time limit reached") for note in notes].count(True) == 1


def test_failures_end_in_code_five_with_the_last_lines(phmrun, written):
    file = written({"task": "toy", "grid": {"data.name": ["oom", "good", "bad"]}})
    result = phmrun(file)
    assert result.exit_code == ExitCode.SWEEP
    assert result.stdout == "3 cells: 1 done · 2 failed\n"
    assert "failed: data.name oom · seed 1 (toy-oom-dense-1-" in result.stderr
    assert "\n  phmrun: error: out of memory: no more\n" in result.stderr
    assert "\n  phmrun: error: train.en:3: the line is empty\n" in result.stderr
    again = phmrun(file)  # nothing is tried again, and nothing forgotten
    assert again.exit_code == ExitCode.SWEEP
    assert "--retry-failed runs failed cells again." in again.stderr
    assert phmrun(file, "--retry-failed").stdout == "3 cells: 2 done · 1 failed\n"


def test_a_script_for_slurm(phmrun, written):
    result = phmrun(written(FOUR), "--script", "--sbatch", "partition=gpu", "--jobs", "2")
    assert result.exit_code == 5  # one cell cannot run
    assert "#SBATCH --array=0-2%2\n" in result.stdout
    assert "#SBATCH --partition=gpu\n" in result.stdout
    assert "submit it by: sbatch /" in result.stderr
    facts = json.loads(phmrun(written(FOUR), "--script", "--json").stdout)
    commands = Path(facts["script"]).with_name("commands.txt").read_text().splitlines()
    assert (facts["job"], len(commands)) == (None, 3)
    assert all(" train toy --config " in command for command in commands)
    assert "'array=3' is not an option" in str(phmrun(written(FOUR), "--script", "--sbatch", "array=3").exception)


def test_slurm_gets_the_trials_before_the_cells_that_wait_for_them(phmrun, written, tmp_path):
    file = written({"task": "toy", "tune": {"model.width": [4, 6]}, "seeds": 3})
    assert "#SBATCH --array=0-1\n" in phmrun(file, "--script").stdout
    configs = (tmp_path / "runs/.sweeps").glob("*/cells/*.yaml")
    assert {yaml.safe_load(path.read_text())["model"]["width"] for path in configs} == {4, 6}


REAL = """
title: A layer
task: nmt
base:
  data: {{prefix: {corpus}/, source: aa, target: bb, vocabulary: {{kind: word, size: 160, multiple_of: 16}}}}
  model: {{width: 16, feedforward: 32, heads: 2, encoder_layers: 1, decoder_layers: 1}}
  batch: {{unit: tokens, size: 200}}
  training: {{max_steps: 40, validate_every: 20, checkpoint_every: 2, keep_last: 2, average: 2}}
  decoding: {{beam: 1, max_length_ratio: 1.0, max_length_offset: 4}}
  hardware: {{accelerator: cpu, threads: 1}}
  logging: {{wandb: disabled}}
grid: {{layer: [{{structure: phm, n: 2}}]}}
"""


@pytest.mark.long
def test_real_runs(tmp_path, capsys):
    """A run of `phmrun train`: interrupted by Ctrl-C, then continued to its end."""
    file = tmp_path / "real.yaml"
    file.write_text(REAL.format(corpus=write_corpus(tmp_path / "corpus")))
    command = ["sweep", str(file), "--runs-dir", str(tmp_path / "runs")]
    planner = subprocess.Popen(
        [sys.executable, "-m", "phmrun", *command], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 240
    while not list((tmp_path / "runs").glob("*/checkpoints/last.ckpt")):
        assert time.monotonic() < deadline, planner.communicate(timeout=1)
        time.sleep(0.02)
    planner.send_signal(signal.SIGINT)
    _, err = planner.communicate(timeout=60)
    assert planner.returncode == ExitCode.INTERRUPTED, err
    assert f"0 of 1 done · 1 interrupted; to continue: phmrun {shlex.join(command)}" in err
    (status,) = (tmp_path / "runs").glob("*/status.json")
    assert json.loads(status.read_text())["state"] == "interrupted"
    with forked_runs(1), pytest.raises(SystemExit) as end:
        main(command)
    out, err = capsys.readouterr()
    assert (end.value.code, out) == (0, "1 cell: 1 done\n"), err
    assert "done after" in err
    assert "test/bleu" in err
    assert "continuing at optimizer step" in (status.parent / "train.log").read_text()
