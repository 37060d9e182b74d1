"""NT-ASGD: when averaging begins, what the mean is, who sees it, and that a killed run goes on with it."""

import pytest
from toy import ToyModule, train_toy

from phmrun.engine.callbacks import Averaging
from phmrun.engine.checkpoints import load_checkpoint


def started_at(losses, patience):
    """The first validation after which the weights are averaged."""
    averaging, module = Averaging(patience), ToyModule()
    return next((number for number, loss in enumerate(losses) if averaging.observe(module, loss)), None)


@pytest.mark.parametrize(
    ("losses", "patience", "first"),
    [
        ([5, 4, 3, 2, 1], 1, None),
        ([5, 4, 4.5], 1, None),  # worse than the last, but better than those before
        ([5, 4, 4.5, 4.6], 1, 3),
        ([3, 4, 5, 6], 3, None),
        ([3, 4, 5, 6, 7], 3, 4),
        ([1, 2], 0, 1),
    ],
)
def test_it_begins_at_a_validation_worse_than_long_before(losses, patience, first):
    assert started_at(losses, patience) == first


LOSSES = [3.0, 4.0, 5.0, 1.0, 0.9]
"""Validations after steps 2, 4 …; with a patience of 1 the one after step 6 starts the averaging."""


def means(steps):
    """The weight after each step k is -Σ 1/i; its mean over the given steps."""
    weights = [-sum(1 / step for step in range(1, last + 1)) for last in steps]
    return sum(weights) / len(weights)


def weight_of(path):
    return float(load_checkpoint(path)["state_dict"]["network.weight"])


def test_validations_and_the_best_checkpoint_take_the_mean(tmp_path):
    toy = train_toy(tmp_path, ToyModule(validations=LOSSES), max_steps=10, validate_every=2, average_after=1)
    assert toy.fitted.best_step == 10
    assert weight_of(tmp_path / "best.ckpt") == pytest.approx(means([7, 8, 9, 10]), abs=1e-6)
    assert weight_of(tmp_path / "last.ckpt") == pytest.approx(means([10]), abs=1e-6)


@pytest.mark.parametrize("death", [13, 17])
def test_a_killed_run_goes_on_with_the_mean(death, tmp_path):
    """With accumulation of 2, step 6 ends at micro-batch 11."""
    options = {"max_steps": 10, "validate_every": 2, "checkpoint_every": 1, "average_after": 1, "accumulate": 2}
    straight = train_toy(tmp_path / "straight", ToyModule(validations=LOSSES), **options)
    script = {death: RuntimeError("killed")}
    with pytest.raises(RuntimeError, match="killed"):
        train_toy(tmp_path / "killed", ToyModule(script, validations=LOSSES), **options)
    train_toy(tmp_path / "killed", ToyModule(validations=LOSSES[death // 4 :]), **options)
    assert straight.fitted.best_step == 10
    for name in ("best.ckpt", "last.ckpt"):
        assert weight_of(tmp_path / "killed" / name) == weight_of(tmp_path / "straight" / name)
