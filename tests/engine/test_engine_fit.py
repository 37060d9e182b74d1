"""From where to where a training goes, and its ends that are not the last step."""

import random

import numpy as np
import pytest
import torch
from toy import ToyModule, train_toy

from phmrun.config import HardwareConfig, TrainingConfig
from phmrun.engine.fit import build_trainer
from phmrun.engine.module import seed_everything
from phmrun.errors import ExitCode, PhmrunError


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


@pytest.mark.parametrize(("devices", "strategy", "fixed"), [(2, "ddp", False), (3, "ddp", True), (3, "auto", True)])
def test_three_processes_or_more_sum_in_the_same_order_after_a_resume(tmp_path, devices, strategy, fixed):
    hardware = HardwareConfig(accelerator="cpu", devices=devices, strategy=strategy)
    trainer = build_trainer(TrainingConfig(max_steps=1), hardware, [], tmp_path, 1)
    assert trainer.world_size == devices
    assert trainer.strategy._ddp_kwargs.get("find_unused_parameters", False) is fixed
