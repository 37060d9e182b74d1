"""When validations are made, what is kept, and when training stops."""

import math
import types

import pytest
import torch
from toy import ToyModule, train_toy

from phmrun.engine import callbacks
from phmrun.engine.checkpoints import load_checkpoint
from phmrun.engine.data import build_data, prepare
from phmrun.engine.evaluation import evaluate_run
from phmrun.engine.trained_model import open_run
from phmrun.errors import ExitCode, PhmrunError
from phmrun.metrics.items import read_losses


def test_the_best_weights_are_kept(tmp_path):
    module = ToyModule(validations=[3.0, 1.0, 2.0])
    toy = train_toy(tmp_path, module, max_steps=6, validate_every=2, accumulate=2)
    best = load_checkpoint(tmp_path / "best.ckpt")
    assert (best["global_step"], toy.fitted.best_step) == (4, 4)
    # Every step subtracts rate · (units / window units) = 1/step from the weight.
    assert float(best["state_dict"]["network.weight"]) == pytest.approx(-(1 + 1 / 2 + 1 / 3 + 1 / 4), abs=1e-6)


@pytest.mark.parametrize(("patience", "last"), [(1, 6), (2, 12), (3, 14), (0, 20)])
def test_patience_counts_validations_without_a_better_score(patience, last, tmp_path):
    """Steps:        2    4    6    8   10   12   14   16   18   20."""
    losses = [3.0, 2.0, 2.0, 1.0, 1.5, 1.5, 1.5, 0.5, 0.4, 0.3]
    toy = train_toy(tmp_path, ToyModule(validations=losses), max_steps=20, validate_every=2, patience=patience)
    assert toy.fitted.step == last
    assert toy.fitted.complete
    assert toy.fitted.reason == ("the last step" if last == 20 else f"no better score in {patience} validations")
    assert load_checkpoint(tmp_path / "last.ckpt")["global_step"] == last


def test_patience_that_is_over_stays_over(tmp_path):
    options = {"max_steps": 20, "validate_every": 2, "patience": 1}
    train_toy(tmp_path, ToyModule(validations=[1.0, 2.0]), **options)
    again = train_toy(tmp_path, **options)
    assert again.module.seen == []
    assert (again.fitted.step, again.fitted.best, again.fitted.best_step, again.fitted.complete) == (4, 1.0, 2, True)


def test_a_validation_comes_before_the_checkpoint_of_its_step(tmp_path):
    train_toy(tmp_path, ToyModule(validations=[2.0]), max_steps=2, validate_every=2, checkpoint_every=2)
    states = load_checkpoint(tmp_path / "last.ckpt")["callbacks"]
    assert next(state for name, state in states.items() if "Validation" in name)["best"] == 2.0


def test_the_time_limit_stops_at_the_end_of_a_step_and_the_run_goes_on_later(tmp_path, monkeypatch):
    module = ToyModule()
    clock = types.SimpleNamespace(monotonic=lambda: 10.0 * len(module.seen))  # twenty seconds a step
    monkeypatch.setattr(callbacks, "time", clock)
    toy = train_toy(tmp_path, module, max_steps=10, accumulate=2, max_time="00:01:00")
    assert toy.fitted.step == 3
    assert len(toy.module.seen) == 6
    assert not toy.fitted.complete
    assert toy.fitted.reason == "the time limit of 00:01:00"
    rest = train_toy(tmp_path, max_steps=10, accumulate=2)
    assert rest.resumed == [3]
    assert rest.module.seen == list(range(6, 20))
    assert rest.fitted.complete


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("before", [[], [1.0]], ids=["first", "later"])
def test_a_validation_that_is_no_number_fails_and_is_never_best(value, before, tmp_path):
    with pytest.raises(PhmrunError, match=rf"the validation's loss is {value} at optimizer step") as caught:
        train_toy(tmp_path, ToyModule(validations=[*before, value]), max_steps=6, validate_every=3)
    assert caught.value.code is ExitCode.TRAINING
    assert (tmp_path / "best.ckpt").exists() == bool(before)


@pytest.mark.parametrize("task", ["nmt", "style", "sva", "nli", "parse"])
def test_the_losses_of_the_items_are_those_of_a_validation(tiny_run, task):
    trained = open_run(run := tiny_run(task))
    trained.load()
    module, data = trained.module.eval(), build_data(trained.config)
    prepare(trained.config, data)
    with torch.inference_mode():
        losses = [module.loss(batch) for batch in data.validation_batches()]
    mean = sum(float(loss.nll) for loss in losses) / sum(loss.units for loss in losses)
    assert evaluate_run(trained, split="dev")["dev/loss"]["value"] == pytest.approx(mean, abs=1e-3)
    stored = read_losses(run, "dev", "")
    assert stored.counts[:, 1].sum() == sum(loss.units for loss in losses)
