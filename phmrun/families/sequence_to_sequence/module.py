"""Training module of encoder–decoder networks, shared by translation and style transfer."""

from typing import cast

import torch
from torch.nn import functional as F

from phmrun.engine.module import (
    Criterion,
    ExportGraph,
    Loss,
    Prediction,
    TrainingModule,
    build_network,
    criterion,
    cross_entropy,
)
from phmrun.engine.optimizers import OptimizerBuilder, optimizer_from
from phmrun.engine.schedules import Schedule, schedule_from
from phmrun.families.sequence_to_sequence.config import DecodingConfig, SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.data import ParallelBatch, ParallelData
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.layers.cross_entropy import linear_cross_entropy
from phmrun.metrics import bleu
from phmrun.models.transformer import EncoderDecoder
from phmrun.text.lines import read_parallel

SMOOTHED = "loss-smoothed"
"""Validation loss with the label smoothing of training, beside the plain one."""


class SequenceToSequenceModule(TrainingModule):
    """Training module of an encoder–decoder, with the label-smoothed loss of target tokens.

    Args:
        network: Network to train.
        optimizer: Builder of the optimizer.
        schedule: Learning-rate schedule.
        smoothing: Label smoothing ε, in training only.
        criterion: Loss function, in training only.
    """

    network: EncoderDecoder

    def __init__(
        self,
        network: EncoderDecoder,
        optimizer: OptimizerBuilder,
        schedule: Schedule,
        *,
        smoothing: float,
        criterion: Criterion = cross_entropy,
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.smoothing = smoothing
        self.criterion = criterion
        self.counted = (SMOOTHED,) if smoothing else ()

    def loss(self, batch: ParallelBatch) -> Loss:
        """Return the loss summed over the target tokens of the batch.

        Label smoothing and ``criterion`` apply in training only; otherwise the loss is the cross-entropy, and the
        smoothed one is among the hits. The result's ``nll`` is the cross-entropy in both cases. Padding is not computed
        by the output map.
        """
        (prediction,) = predictions = self.predictions(batch)
        output = self.network.output
        inner, weight = output.reduced(prediction.vectors)
        replaced = self.training and self.criterion is not cross_entropy
        with torch.set_grad_enabled(torch.is_grad_enabled() and not replaced):
            total, nll = linear_cross_entropy(inner, weight, output.bias, batch.wanted, smoothing=self.smoothing)
        if not self.training:
            return Loss(nll, nll, batch.units, dict.fromkeys(self.counted, total), predictions=predictions)
        if replaced:
            logits = F.linear(inner, weight, output.bias)
            total = self.criterion(logits, batch.wanted, smoothing=self.smoothing)
        return Loss(total, nll, batch.units, predictions=predictions)

    def predictions(self, batch: ParallelBatch) -> list[Prediction]:
        """Return one prediction: hidden vectors of the target tokens, with the output map.

        Padding is left out; the rows are in the order of ``batch.wanted``.
        """
        hidden = self.network(batch.source, batch.mask, batch.target)
        return [Prediction(hidden.flatten(0, 1).index_select(0, batch.positions), self.network.output)]

    def validation_scores(self, data: ParallelData) -> dict[str, float]:
        """Return BLEU of greedy outputs on the validation pairs, in percent, as ``bleu``."""
        translator = Translator(self.network, data.vocabulary, DecodingConfig(beam=1), device=self.device)
        sources, references = zip(*read_parallel(*data.files["dev"]), strict=True)
        return {
            "bleu": bleu(translator.translate(sources), references, resamples=0, tokenizer=data.config.tokenizer).value
        }

    def export_graph(self) -> ExportGraph:
        """Return the export graph, from tokens of both sides to next-token logits."""
        from phmrun.families.sequence_to_sequence.graph import translation_graph

        return translation_graph(self.network)


def build_sequence_to_sequence(
    config: SequenceToSequenceExperiment, source_size: int, target_size: int
) -> SequenceToSequenceModule:
    """Build the training module of an experiment for these vocabulary sizes.

    Raises:
        PhmrunError: Sizes, structures and tying do not fit together.
    """
    training = config.training
    return SequenceToSequenceModule(
        cast(EncoderDecoder, build_network("sequence_to_sequence", config, source_size, target_size)),
        optimizer_from(training.optimizer),
        schedule_from(training, config.model.width),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
    )
