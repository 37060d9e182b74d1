"""Training steps and search steps that do not wait for a GPU, counted on a CPU."""

from itertools import pairwise

import pytest
import torch
from built_networks import built
from tiny_experiments import SETTINGS, configured, run_experiment
from waits import counted_waits

from phmrun.decoding.beam import beam_search
from phmrun.engine import callbacks, progress
from phmrun.engine.data import loader
from phmrun.engine.module import TrainingModule
from phmrun.layers import recurrence
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.transformer import Transformer

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


@pytest.mark.parametrize("task", SETTINGS)
def test_no_training_step_waits_away_from_logging(task, tmp_path, monkeypatch):
    config = configured(task, tmp_path / "corpus", {"training": LONG, "logging": {"every": 1000}})
    assert waits_by_step(config, tmp_path / "runs", monkeypatch) == [0] * 5


@pytest.mark.parametrize("read", [torch.Tensor.item, torch.Tensor.tolist, bool, torch.Tensor.nonzero])
def test_one_read_in_a_step_is_counted(read, tmp_path, monkeypatch):
    step = TrainingModule.training_step

    def reading(self, batch, index):
        outputs = step(self, batch, index)
        read(outputs["nll"])
        return outputs

    monkeypatch.setattr(TrainingModule, "training_step", reading)
    config = configured("sva", tmp_path / "corpus", {"training": {**LONG, "accumulate": 1}, "logging": {"every": 1000}})
    assert waits_by_step(config, tmp_path / "runs", monkeypatch) == [1] * 5


@torch.inference_mode()
@pytest.mark.parametrize("beam", [1, 5])
def test_a_search_step_waits_at_most_twice(beam, monkeypatch):
    torch.manual_seed(0)
    sizes = {"width": 16, "heads": 2, "feedforward": 32, "encoder_layers": 1, "decoder_layers": 1}
    network = built(Transformer, 40, 40, **sizes).eval()
    source = torch.randint(4, 40, (6, 9))
    totals = []
    step = IncrementalTransformer.step
    with counted_waits() as counts:

        def noted(self, tokens, state):
            totals.append(sum(counts.values()))
            return step(self, tokens, state)

        monkeypatch.setattr(IncrementalTransformer, "step", noted)
        decoder = IncrementalTransformer(network, PAD)
        limits = [5, 30, 30, 17, 12, 30]
        beam_search(decoder, source, beam=beam, alpha=0.6, bos=BOS, eos=EOS, pad=PAD, max_lengths=limits)
    steps = [after - before for before, after in pairwise(totals)]
    assert len(steps) >= 5
    assert max(steps) <= 2


def test_pinned_batches_are_asked_of_the_loader():
    assert loader([0], [1], seed=0, pinned=True).pin_memory
    assert not loader([0], [1], seed=0).pin_memory
