"""The biaffine parser in training: heads and labels by cross-entropy."""

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.engine.distillation import Prediction
from phmrun.engine.module import Loss, TrainingModule
from phmrun.engine.optimizers import OptimizerBuilder, Schedule, optimizer_from, schedule_from
from phmrun.export.graph import ExportGraph
from phmrun.tasks.parse.biaffine_parser import BiaffineParser, ParserScores
from phmrun.tasks.parse.config import ParsingExperiment
from phmrun.tasks.parse.data import TreeBatch
from phmrun.tasks.parse.vocabulary import NO_LABEL


class ParserModule(TrainingModule):
    """A parser trained on the cross-entropy of each word's head plus that of its label, given the gold head.

    Validation counts the words whose best head is right ("uas"), and those whose label is right as well ("las"), with
    its subtype if labels are learnt with theirs; no tree is searched for.

    Args:
        network: The parser.
        optimizer: Builds the optimiser.
        schedule: Learning rate by optimizer step.
        smoothing: ε of the label smoothing, which heads have none of.
    """

    counted = ("uas", "las")

    def __init__(
        self, network: BiaffineParser, optimizer: OptimizerBuilder, schedule: Schedule, *, smoothing: float
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.smoothing = smoothing

    @property
    def parser(self) -> BiaffineParser:
        """The network, by its type."""
        return cast(BiaffineParser, self.network)

    def loss(self, batch: TreeBatch) -> Loss:
        """Summed over the words of the batch; labels are scored for the gold heads alone."""
        scores = self.network(*batch.inputs)
        predictions = self._of(scores, batch)
        arcs, labels = (prediction.vectors for prediction in predictions)
        heads, wanted = (each.flatten().index_select(0, batch.positions) for each in (batch.heads, batch.labels))
        of_heads = F.cross_entropy(arcs, heads, reduction="sum")
        of_labels = F.cross_entropy(labels, wanted, reduction="sum", ignore_index=NO_LABEL)
        nll = of_heads + of_labels
        if not self.training:
            found = arcs.argmax(dim=-1)
            chosen = batch.heads.flatten().index_copy(0, batch.positions, found).view_as(batch.heads)
            best = self.parser.label_scores(scores, chosen, batch.positions).argmax(dim=-1)
            right = found == heads
            hits = {"uas": right.sum(), "las": (right & (best == wanted)).sum()}
            return Loss(nll, nll, batch.units, hits)
        if self.smoothing:
            of_labels = F.cross_entropy(
                labels, wanted, reduction="sum", ignore_index=NO_LABEL, label_smoothing=self.smoothing
            )
        return Loss(of_heads + of_labels, nll, batch.units, predictions=predictions)

    def predictions(self, batch: TreeBatch) -> list[Prediction]:
        """Of each word of the batch: its head, and the label of its arc from the gold head."""
        return self._of(self.network(*batch.inputs), batch)

    def _of(self, scores: ParserScores, batch: TreeBatch) -> list[Prediction]:
        arcs = possible_arcs(scores.arcs, batch.inputs[-1]).flatten(0, 1).index_select(0, batch.positions)
        labels = self.parser.label_scores(scores, batch.heads, batch.positions)
        return [Prediction(arcs, nn.Identity()), Prediction(labels, nn.Identity())]

    def export_graph(self) -> ExportGraph:
        """From words, tags and characters to the scores of arcs and labels."""
        from phmrun.tasks.parse.export import parser_graph

        return parser_graph(self.parser)


def possible_arcs(arcs: Tensor, lengths: Tensor) -> Tensor:
    """Scores of arcs, ``[batch, dependents, heads]``, minus infinity for heads beyond a sentence's end."""
    beyond = torch.arange(arcs.shape[2], device=arcs.device) >= lengths.unsqueeze(1)
    return arcs.masked_fill(beyond.unsqueeze(1), float("-inf"))


def build_module(config: ParsingExperiment, words: int, tags: int, characters: int, labels: int) -> ParserModule:
    """The module of an experiment.

    Args:
        config: The resolved config.
        words: Rows of the word table.
        tags: Rows of the tag table.
        characters: Rows of the character table.
        labels: Labels of arcs.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """
    model, training = config.model, config.training
    network = BiaffineParser(
        words,
        tags,
        characters,
        labels,
        word_width=model.word_width,
        tag_width=model.tag_width,
        character_width=model.character_width,
        character_hidden=model.character_hidden,
        character_pooling=model.character_pooling,
        hidden=model.hidden,
        layers=model.layers,
        arc_width=model.arc_width,
        label_width=model.label_width,
        coupled=model.cell == "coupled",
        dropout=model.dropout,
        recurrent_dropout=model.recurrent_dropout,
        embedding_dropout=model.embedding_dropout,
        word_dropout=model.word_dropout,
        vector_std=model.vector_std,
        classifier=config.output.arguments,
        layer=config.layer.arguments,
        embedding=config.embedding.arguments,
    )
    return ParserModule(
        network,
        optimizer_from(training.optimizer),
        schedule_from(training, model.hidden),
        smoothing=training.label_smoothing,
    )
