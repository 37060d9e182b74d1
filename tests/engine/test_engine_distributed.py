"""Several processes train as one: every token of a step weighs the same, whichever process has it."""

import json
from typing import Any

import pytest
import torch
from forks import ended, forked
from tiny_experiments import NO_DROPOUT, configured, run_experiment, run_of

from phmrun.ledger import Run, State

TWO = {"hardware": {"devices": 2, "strategy": "ddp"}}
ALIKE: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nmt": (
        {"model": {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}, "layer": "guided"},
        {"training": {"accumulate": 4}},
        {"training": {"accumulate": 2}},
    ),
    "lm": ({"model": NO_DROPOUT["lm"]}, {"batch": {"size": 8}}, {"batch": {"size": 4}}),
}
"""By task: what makes it deterministic, and the settings of one process that equal those of two."""


@pytest.mark.long
@pytest.mark.parametrize("task", ALIKE)
def test_two_processes_equal_one_with_their_batches(task, tmp_path):
    still, alone_has, each_has = ALIKE[task]
    length = {"training": {"max_steps": None, "max_epochs": 2, "validate_every": 3}}
    first = configured(task, tmp_path / "corpus", still, length, alone_has)
    alone = run_of(run_experiment(first, tmp_path / "alone"))

    values = configured(task, tmp_path / "corpus", still, length, each_has, TWO).model_dump(mode="json")
    (tmp_path / "two.yaml").write_text(json.dumps({key: value for key, value in values.items() if key != "task"}))
    command = ["train", task, "--config", str(tmp_path / "two.yaml"), "--runs-dir", str(tmp_path / "together")]
    pid = forked(command, tmp_path, tmp_path / "output", others=1)
    assert ended(pid) == 0, (tmp_path / "output").read_text()

    (path,) = (tmp_path / "together").glob(f"{task}-*")
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
