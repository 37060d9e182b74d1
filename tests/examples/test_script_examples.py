"""The examples of scripts train, and go on from their own checkpoints to the same scores."""

import json
import runpy
import sys
from pathlib import Path

import pytest
from forks import completed

from phmrun.ledger.listing import list_runs

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("sklearn")


def run_script(command):
    sys.argv = command
    runpy.run_path(command[0], run_name="__main__")
    raise SystemExit


def call(folder, *arguments, code=0):
    done = completed([*map(str, arguments)], folder, {"WANDB_MODE": "disabled"}, program=run_script)
    assert done.returncode == code, done.stderr
    return done.stdout


def test_the_vision_transformer_goes_on_from_its_checkpoint(tmp_path):
    script = (EXAMPLES / "vit" / "train_vit.py").read_text().replace("if step % 50 == 0:", "if step % 10 == 0:")
    (tmp_path / "often.py").write_text(script)
    stop = "if step == 18:\n            raise SystemExit(9)\n        if step % 10 == 0:"
    (tmp_path / "broken.py").write_text(script.replace("if step % 10 == 0:", stop))
    settings = ("--layer", '{"structure": "phm", "n": 4}', "--steps", 20, "--out")
    call(tmp_path, "often.py", *settings, "whole")
    call(tmp_path, "broken.py", *settings, "parts", code=9)
    assert "going on at step 10" in call(tmp_path, "often.py", *settings, "parts")
    whole, parts = (json.loads((tmp_path / name / "scores.json").read_text()) for name in ("whole", "parts"))
    assert whole == parts
    assert 0 < whole["parameters"] < 10_000
    assert len(whole["test/accuracy"]["items"]) == 497


def test_the_network_for_tabular_data_is_recorded_once(tmp_path):
    script = EXAMPLES / "tabular" / "train_mlp.py"
    for _ in range(2):
        printed = call(tmp_path, script, "--seeds", 1, "--steps", 50)
    assert printed == ""
    runs = {run.about("layer"): run for run in list_runs(tmp_path / "runs")}
    assert runs.keys() == {"dense", "phm n=4", "low-rank budget=0.25"}
    assert all(run.state == "done" and run.score("test/accuracy") > 60 for run in runs.values())
