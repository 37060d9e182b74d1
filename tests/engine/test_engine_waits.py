"""Training steps and search steps that do not wait for a GPU, counted on a CPU."""

import pytest
from tiny_experiments import configured, run_experiment
from waits import counted_waits

from phmrun.engine import callbacks, progress
from phmrun.engine.data import loader
from phmrun.layers import recurrence

LONG = {"max_steps": 8, "validate_every": 1000, "checkpoint_every": 1000, "keep_last": 1, "average": 0, "clip": 1.0}
PAD, UNK, BOS, EOS = 0, 1, 2, 3


def waits_by_step(config, folder, monkeypatch):
    """Waits of each optimizer step between the second and the last, as on a GPU."""
    monkeypatch.setattr(progress, "reads_are_free", lambda module: False)
    monkeypatch.setattr(recurrence, "skips_padding", lambda inputs: False)
    totals = []
    last = callbacks.PeriodicCheckpoints.on_train_batch_end
    with counted_waits() as counts:

        def noted(self, trainer, *arguments):
            last(self, trainer, *arguments)
            totals.append((trainer.global_step, sum(counts.values())))

        monkeypatch.setattr(callbacks.PeriodicCheckpoints, "on_train_batch_end", noted)
        run_experiment(config, folder)
    by_step = dict(totals)
    return [by_step[step] - by_step[step - 1] for step in range(3, LONG["max_steps"])]


@pytest.mark.parametrize("task", ["lm", "nli", "nmt", "parse"])
def test_no_training_step_waits_away_from_logging(task, tmp_path, monkeypatch):
    config = configured(task, tmp_path / "corpus", {"training": LONG, "logging": {"every": 1000}})
    assert waits_by_step(config, tmp_path / "runs", monkeypatch) == [0] * 5


def test_pinned_batches_are_asked_of_the_loader():
    assert loader([0], [1], seed=0, pinned=True).pin_memory
    assert not loader([0], [1], seed=0).pin_memory
