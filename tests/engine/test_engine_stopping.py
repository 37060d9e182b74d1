"""Signals while a model trains."""

import os
import signal

import pytest
import torch
from toy import ToyModule, train_toy

from phmrun.engine.checkpoints import load_checkpoint
from phmrun.errors import ExitCode, Interrupted


class Signalled(ToyModule):
    """Sends this process signals at micro-batches."""

    def __init__(self, signals, **options):
        super().__init__(**options)
        self.signals = signals

    def loss(self, batch):
        for which in self.signals.get(int(batch.number), ()):
            os.kill(os.getpid(), which)
        return super().loss(batch)


@pytest.mark.parametrize("which", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("number", "step"), [(0, 1), (5, 3), (6, 4)])
def test_a_signal_ends_training_after_its_step_with_a_checkpoint(which, number, step, tmp_path):
    handlers = [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)]
    toy = train_toy(tmp_path, Signalled({number: [which]}), max_steps=6, accumulate=2, checkpoint_every=100)
    assert (toy.fitted.step, toy.fitted.complete, toy.fitted.signal) == (step, False, which)
    assert toy.fitted.reason == f"by {which.name} at optimizer step {step} of 6"
    assert load_checkpoint(tmp_path / "last.ckpt")["global_step"] == step
    assert [signal.getsignal(which) for which in (signal.SIGINT, signal.SIGTERM)] == handlers

    again = train_toy(tmp_path, max_steps=6, accumulate=2, checkpoint_every=100)
    straight = train_toy(tmp_path / "straight", max_steps=6, accumulate=2, checkpoint_every=100)
    assert again.fitted.complete
    first, other = again.module.network.weight, straight.module.network.weight
    assert torch.equal(first, other)


def test_the_second_signal_interrupts_at_once(tmp_path):
    with pytest.raises(Interrupted) as caught:
        train_toy(tmp_path, Signalled({5: [signal.SIGTERM, signal.SIGINT]}))
    assert caught.value.code is ExitCode.INTERRUPTED
    assert load_checkpoint(tmp_path / "last.ckpt")["global_step"] == 4


def test_a_signal_in_the_step_where_patience_ends_keeps_the_weights_of_that_step(tmp_path):
    train_toy(tmp_path, Signalled({2: [signal.SIGINT]}, validations=[1] * 3), validate_every=1, patience=2, keep_last=2)
    assert (tmp_path / "step-000000003.ckpt").is_file()
