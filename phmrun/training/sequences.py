"""Sequence-to-sequence learning: the loss over target tokens, and outputs for text. Translation and style share it."""

from typing import cast

from phmrun.layers.cross_entropy import linear_cross_entropy
from phmrun.metrics import bleu
from phmrun.models.transformer import Transformer
from phmrun.text.parallel import read_parallel
from phmrun.training.module import Loss, TrainingModule
from phmrun.training.optimizers import OptimizerBuilder, Schedule
from phmrun.training.parallel import ParallelBatch, ParallelData
from phmrun.training.translation import Search, Translator


class SequenceToSequence(TrainingModule):
    """A Transformer trained on label-smoothed cross-entropy per target token.

    Args:
        network: The encoder–decoder.
        optimizer: Builds the optimiser.
        schedule: Learning rate by optimizer step.
        smoothing: ε of the label smoothing.
    """

    def __init__(
        self,
        network: Transformer,
        optimizer: OptimizerBuilder,
        schedule: Schedule,
        *,
        smoothing: float,
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.smoothing = smoothing

    @property
    def transformer(self) -> Transformer:
        """The network, by its type."""
        return cast(Transformer, self.network)

    def loss(self, batch: ParallelBatch) -> Loss:
        """Summed over the target tokens of the batch; padding costs nothing, not even the output map."""
        hidden = self.network(batch.source, batch.mask, batch.target)
        output = self.transformer.output
        picked = hidden.flatten(0, 1).index_select(0, batch.positions)
        smoothing = self.smoothing if self.training else 0.0
        inner, weight = output.reduced(picked)
        total, nll = linear_cross_entropy(inner, weight, output.bias, batch.wanted, smoothing=smoothing)
        return Loss(total, nll, batch.units)

    def validation_scores(self, data: ParallelData) -> dict[str, float]:
        """BLEU of greedy outputs on the validation pairs."""
        translator = Translator(self.transformer, data.prepared.vocabularies, Search(beam=1), device=self.device)
        sources, references = zip(*read_parallel(*data.files["dev"]), strict=True)
        outputs = [str(text) for text in translator.predict(sources)]
        return {"bleu": bleu(outputs, references, resamples=0).value}
