"""Several processes train as one: every token of a step weighs the same, whichever process has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_experiments import configured, run_experiment, run_of

from phmrun.ledger import Run, State

PHMRUN = Path(sys.executable).with_name("phmrun")
STILL = {"model": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}}


@pytest.mark.slow
@pytest.mark.skipif(not PHMRUN.is_file(), reason="Lightning starts the second process by the command, which is missing")
def test_two_processes_equal_one_with_twice_the_accumulation(tmp_path):
    training = {"max_steps": None, "max_epochs": 2, "validate_every": 3}
    one = configured("nmt", tmp_path / "corpus", STILL, {"training": {**training, "accumulate": 4}})
    alone = run_of(run_experiment(one, tmp_path / "alone"))

    two = {"training": {**training, "accumulate": 2}, "hardware": {"devices": 2, "strategy": "ddp"}}
    values = configured("nmt", tmp_path / "corpus", STILL, two).model_dump(mode="json")
    (tmp_path / "two.yaml").write_text(json.dumps({key: value for key, value in values.items() if key != "task"}))
    command = [PHMRUN, "train", "nmt", "--config", tmp_path / "two.yaml", "--runs-dir", tmp_path / "together"]
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
