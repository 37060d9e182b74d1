"""Several processes train as one: every token of a step weighs the same, whichever process has it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_experiments import NO_DROPOUT, configured, run_experiment, run_of

from phmrun.ledger import Run, State

PHMRUN = Path(sys.executable).with_name("phmrun")
TWO = {"hardware": {"devices": 2, "strategy": "ddp"}}
ALIKE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nmt": (
        {"model": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}},
        {"training": {"accumulate": 4}},
        {"training": {"accumulate": 2}},
    ),
    "lm": ({"model": NO_DROPOUT["lm"]}, {"batch": {"size": 8}}, {"batch": {"size": 4}}),
}
"""By task: what makes it deterministic, and the settings of one process that equal those of two."""


@pytest.mark.slow
@pytest.mark.parametrize("task", ALIKE)
def test_two_processes_equal_one_with_their_batches(task, tmp_path):
    still, alone_has, each_has = ALIKE[task]
    course = {"training": {"max_steps": None, "max_epochs": 2, "validate_every": 3}}
    one = configured(task, tmp_path / "corpus", still, course, alone_has)
    alone = run_of(run_experiment(one, tmp_path / "alone"))

    values = configured(task, tmp_path / "corpus", still, course, each_has, TWO).model_dump(mode="json")
    (tmp_path / "two.yaml").write_text(json.dumps({key: value for key, value in values.items() if key != "task"}))
    command = [PHMRUN, "train", task, "--config", tmp_path / "two.yaml", "--runs-dir", tmp_path / "together"]
    finished = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert finished.returncode == 0, finished.stderr

    (path,) = (tmp_path / "together").iterdir()
    together = Run(path)
    assert together.status.state is State.DONE
    assert together.status.step == alone.status.step
    pairs = list(zip(together.history.read(), alone.history.read(), strict=True))
    assert len(pairs) > 2
    for mine, other in pairs:
        assert mine["step"] == other["step"]
        for name in {"val/loss", "train/loss"} & other.keys():
            assert mine[name] == pytest.approx(other[name], rel=1e-5)
    weights = [torch.load(run.checkpoints / "last.ckpt")["state_dict"] for run in (together, alone)]
    for name, tensor in weights[0].items():
        torch.testing.assert_close(tensor, weights[1][name], rtol=1e-3, atol=1e-3)
    scores = [
        {name: s["value"] for name, s in r.metrics().items() if name.startswith("test/")} for r in (together, alone)
    ]
    for name in scores[1].keys() - {"test/sentences_per_second"}:
        assert scores[0][name] == pytest.approx(scores[1][name], rel=1e-3), name
