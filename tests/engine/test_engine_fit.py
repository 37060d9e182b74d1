"""From where to where a training goes, and its ends that are not the last step."""

import random

import numpy as np
import pytest
import torch
from toy import ToyData, ToyModule, train_toy

from phmrun.config import HardwareConfig, TrainingConfig
from phmrun.engine import fit
from phmrun.engine.checkpoints import load_checkpoint
from phmrun.engine.fit import build_trainer, total_steps
from phmrun.engine.module import seed_everything
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger.outcome import is_leader

CPU = HardwareConfig(accelerator="cpu")


def steps(accumulate=1, **training):
    return total_steps(TrainingConfig(**training), CPU, ToyData(accumulate))


def test_the_first_limit_counts():
    assert steps(max_steps=7) == 7
    assert steps(max_epochs=2) == 20
    assert steps(accumulate=3, max_epochs=2) == 7
    assert steps(max_steps=7, max_epochs=2) == 7
    assert steps(max_steps=70, max_epochs=2) == 20


def test_epochs_that_end_before_the_steps_asked_for(caplog):
    steps(max_steps=20, max_epochs=2)
    assert "fewer than" not in caplog.text
    steps(max_steps=2000, max_epochs=2)
    assert "2 epochs are 20 steps, fewer than training.max_steps: 2,000" in caplog.text


def test_several_processes_share_an_epoch(monkeypatch):
    monkeypatch.setattr(fit, "build_trainer", lambda *_: type("Trainer", (), {"world_size": 4}))
    assert steps(max_epochs=2) == 5


def test_no_end():
    with pytest.raises(PhmrunError, match="neither max_steps nor max_epochs") as caught:
        steps()
    assert "--max-steps" in caught.value.hint


def test_one_seed_sets_all_generators():
    def draw():
        return random.random(), np.random.rand(), torch.rand(1).item()

    seed_everything(1)
    first = draw()
    assert draw() != first
    seed_everything(1)
    assert draw() == first
    seed_everything(2**32 + 1)
    assert draw() != first


@pytest.mark.parametrize(
    ("environment", "leader"),
    [({}, True), ({"LOCAL_RANK": "0"}, True), ({"LOCAL_RANK": "1"}, False), ({"NODE_RANK": "1"}, False)],
)
def test_the_first_process_leads(environment, leader, monkeypatch):
    for name in ("LOCAL_RANK", "NODE_RANK", "GROUP_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert is_leader() is leader


def test_a_whole_training(tmp_path):
    toy = train_toy(tmp_path, max_steps=6)
    assert toy.resumed == [0]
    assert (toy.fitted.step, toy.fitted.complete, toy.fitted.reason) == (6, True, "the last step")
    assert toy.fitted.best == 1.0
    assert load_checkpoint(tmp_path / "last.ckpt")["global_step"] == 6


def test_a_finished_training_is_not_repeated(tmp_path):
    first = train_toy(tmp_path, max_steps=6)
    before = (tmp_path / "last.ckpt").read_bytes()
    again = train_toy(tmp_path, max_steps=6)
    assert again.module.seen == []
    assert again.rows == []
    assert again.resumed == [6]
    assert (again.fitted.step, again.fitted.complete) == (6, True)
    assert (again.fitted.best, again.fitted.best_step) == (first.fitted.best, first.fitted.best_step)
    assert (tmp_path / "last.ckpt").read_bytes() == before


@pytest.fixture(scope="module", params=[1, 2])
def straight(request, tmp_path_factory):
    """End state of an uninterrupted training, and micro-batches per step."""
    accumulate = request.param
    directory = tmp_path_factory.mktemp("straight")
    return train_toy(directory, max_steps=12 // accumulate, accumulate=accumulate), accumulate


@pytest.mark.parametrize("kill", range(1, 12))
def test_stopped_anywhere_the_weights_end_the_same(kill, straight, tmp_path):
    straight, accumulate = straight
    directory = tmp_path / "resumed"
    with pytest.raises(RuntimeError, match="killed"):
        train_toy(
            directory, ToyModule({kill: RuntimeError("killed")}), max_steps=12 // accumulate, accumulate=accumulate
        )
    again = train_toy(directory, max_steps=12 // accumulate, accumulate=accumulate)
    assert again.module.seen == list(range(kill // (2 * accumulate) * 2 * accumulate, 12))
    assert torch.equal(again.module.network.weight, straight.module.network.weight)


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore of this"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 4 bytes"),
    ],
)
def test_a_lack_of_memory_is_a_failed_training_with_advice(error, tmp_path):
    with pytest.raises(PhmrunError, match="out of memory") as caught:
        train_toy(tmp_path, ToyModule({3: error}))
    assert caught.value.code is ExitCode.TRAINING
    assert "--batch-size" in caught.value.hint
    assert "\n" not in caught.value.what


def test_other_errors_stay_what_they_are(tmp_path):
    with pytest.raises(RuntimeError, match="shape mismatch"):
        train_toy(tmp_path, ToyModule({3: RuntimeError("shape mismatch")}))


def test_an_interruption_by_the_user_is_one(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        train_toy(tmp_path, ToyModule({3: KeyboardInterrupt()}))
    assert train_toy(tmp_path).resumed == [2]


@pytest.mark.parametrize(("devices", "strategy", "fixed"), [(2, "ddp", False), (3, "ddp", True), (3, "auto", True)])
def test_three_processes_or_more_sum_in_the_same_order_after_a_resume(tmp_path, devices, strategy, fixed):
    hardware = HardwareConfig(accelerator="cpu", devices=devices, strategy=strategy)
    trainer = build_trainer(TrainingConfig(max_steps=1), hardware, [], tmp_path, 1)
    assert trainer.world_size == devices
    assert trainer.strategy._ddp_kwargs.get("find_unused_parameters", False) is fixed
