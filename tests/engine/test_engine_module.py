"""The loss of every task weighs each token equally, however a step is divided into micro-batches."""

import pytest
import torch
from built_networks import built
from tiny_experiments import configured, write_corpus
from torch.nn import functional as F
from torch.optim import SGD
from toy import ToyData

from phmrun.config import HardwareConfig, TrainingConfig
from phmrun.engine.fit import build_trainer, run_trainer
from phmrun.engine.module import TrainingModule, build_module
from phmrun.engine.optimizers import build_optimizer
from phmrun.families.sequence_to_sequence.data import ParallelCorpus, ParallelData
from phmrun.families.sequence_to_sequence.module import SequenceToSequenceModule
from phmrun.layers.structure import build_weight
from phmrun.models.transformer import Transformer
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.vocabulary import PAD


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("corpus"))


def data_of(corpus, cache, accumulate):
    files = {split: (corpus / f"{split}.aa", corpus / f"{split}.bb") for split in ("train", "dev")}
    config = TranslationExperiment(
        data={"vocabulary": {"kind": "word", "size": 160, "multiple_of": 16}, "max_length": 100},
        batch={"unit": "sentences", "size": 5},
        training={"accumulate": accumulate},
        seed=3,
        hardware={"workers": 0},
    )
    return ParallelData(config, ParallelCorpus(files, {}), cache)


def module_of(size, smoothing=0.1):
    torch.manual_seed(0)
    sizes = {"width": 16, "feedforward": 24, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    still = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    network = built(Transformer, size, size, **sizes, **still, layer={"structure": "phm", "n": 2})

    def plain(network, *, fused=True):
        return SGD(network.parameters(), lr=1.0)

    return SequenceToSequenceModule(network, plain, lambda step: 1.0, smoothing=smoothing)


def one_big_batch(module, batches, smoothing):
    """The mean loss per target token over several batches, from logits of the whole sentences."""
    total, units = torch.zeros((), dtype=torch.float64), 0
    for batch in batches:
        logits = F.linear(module.network(batch.source, batch.mask, batch.target), module.network.output.weight)
        wanted = torch.full(batch.target.shape, PAD)
        wanted.view(-1)[batch.positions] = batch.wanted
        flat = logits.flatten(0, 1), wanted.flatten()
        total = total + F.cross_entropy(*flat, ignore_index=PAD, label_smoothing=smoothing, reduction="sum")
        units += int((wanted != PAD).sum())
    return total / units


@pytest.mark.parametrize("clip", [0.0, 0.5])
@pytest.mark.parametrize("accumulate", [1, 2, 3])
def test_a_step_is_the_gradient_of_one_big_batch(corpus, prepared_corpora, tmp_path, accumulate, clip):
    data = data_of(corpus, prepared_corpora, accumulate)
    loader = iter(data.train_dataloader())
    batches = [next(loader) for _ in range(accumulate)]
    assert accumulate == 1 or len({batch.units for batch in batches}) > 1, "micro-batches of different sizes"
    module = module_of(data.vocabulary.sizes[0]).double()
    before = {name: parameter.detach().clone() for name, parameter in module.network.named_parameters()}
    gradients = torch.autograd.grad(one_big_batch(module, batches, 0.1), list(module.network.parameters()))
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    scale = min(1.0, clip / float(norm)) if clip else 1.0
    assert not clip or scale < 1

    training = TrainingConfig.model_validate(
        {"max_steps": 1, "accumulate": accumulate, "precision": "64", "clip": clip}
    )
    trainer = build_trainer(training, HardwareConfig(accelerator="cpu"), [], tmp_path, 1)
    run_trainer(trainer, module, data, None)
    for (name, parameter), gradient in zip(module.network.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(before[name] - parameter, scale * gradient, rtol=1e-5, atol=1e-9, msg=name)


class Trainer:
    """Stand-in for Lightning's trainer with all that a validation needs."""

    world_size = 1

    class precision_plugin:
        @staticmethod
        def val_step_context():
            return torch.no_grad()

    class strategy:
        @staticmethod
        def reduce(tensor, reduce_op):
            assert reduce_op == "sum"
            return tensor

        @staticmethod
        def batch_to_device(batch, device):
            return batch


@pytest.mark.parametrize("training", [True, False])
def test_the_validation_loss_is_the_mean_over_tokens_without_smoothing(corpus, prepared_corpora, training):
    data = data_of(corpus, prepared_corpora, 1)
    module = module_of(data.vocabulary.sizes[0]).double().train(training)
    module.network.dropout = 0.5
    module.trainer = Trainer()
    value = module.validate(data.validation_batches())["loss"]
    assert module.training is training
    assert module.network.training is training
    module.eval()
    assert value == pytest.approx(float(one_big_batch(module, data.validation_batches(), 0.0).detach()), rel=1e-6)


def test_bf16_clips_the_gradients_of_the_fused_optimizer(tmp_path):
    from pytorch_lightning.callbacks import LambdaCallback

    toy = TrainingModule(torch.nn.Linear(3, 1), build_optimizer, lambda step: 1e-3)
    toy.training_step = lambda batch, index: {
        "loss": toy.network(torch.ones(1, 3)).sum(),
        "nll": torch.ones(()),
        "units": 1,
    }
    training = TrainingConfig.model_validate({"max_steps": 2, "precision": "bf16-mixed", "clip": 0.1})
    fused = []
    watch = LambdaCallback(
        on_before_optimizer_step=lambda trainer, module, optimizer: fused.append(optimizer.defaults["fused"])
    )
    trainer = build_trainer(training, HardwareConfig(accelerator="cpu"), [watch], tmp_path, 2)
    run_trainer(trainer, toy, ToyData(), None)
    assert fused == [True, True]


def test_the_structure_of_a_single_map_is_drawn_and_changes_during_training(tmp_path):
    layer = {"structure": "guided", "of": "phm", "options": "n=2"}
    config = configured("sva", tmp_path, {"maps": [{"name": "encoder.*", "layer": layer}]})
    weights = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        torch.full((300_000,), torch.nan)  # what unwritten memory would hold
        module = build_module(config, 40, 2)
        weights.append(torch.cat([build_weight(part).detach().flatten() for part in module.changing]))
        assert weights[-1].std() == pytest.approx(0.17, rel=0.2)  # of the dense maps
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])
