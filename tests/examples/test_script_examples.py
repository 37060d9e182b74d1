"""The examples of scripts train, and go on from their own checkpoints to the same scores."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from phmrun.ledger.listing import list_runs

pytestmark = pytest.mark.long

EXAMPLES = Path(__file__).parents[2] / "examples"
pytest.importorskip("sklearn")


def call(folder, *arguments, code=0):
    environment = {**os.environ, "WANDB_MODE": "disabled"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout


def test_the_vision_transformer_goes_on_from_its_checkpoint(tmp_path):
    script = EXAMPLES / "vit" / "train_vit.py"
    layer = '{"structure": "phm", "n": 4}'
    call(tmp_path, script, "--layer", layer, "--steps", 100, "--out", "whole")
    stop = "if step == 80:\n            raise SystemExit(9)\n        if step % 50 == 0:"
    broken = script.read_text().replace("if step % 50 == 0:", stop)
    (tmp_path / "broken.py").write_text(broken)
    call(tmp_path, "broken.py", "--layer", layer, "--steps", 100, "--out", "parts", code=9)
    assert "going on at step 50" in call(tmp_path, script, "--layer", layer, "--steps", 100, "--out", "parts")
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
