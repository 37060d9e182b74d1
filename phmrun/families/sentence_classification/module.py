"""Learning to label: the cross-entropy of a network's class scores, and how many items they get right."""

import torch
from torch import nn
from torch.nn import functional as F

from phmrun.engine.distillation import Prediction
from phmrun.engine.module import Loss, TrainingModule
from phmrun.engine.optimizers import OptimizerBuilder, Schedule
from phmrun.errors import PhmrunError
from phmrun.export.graph import ExportGraph
from phmrun.families.sentence_classification.data import ClassificationBatch, ClassificationData
from phmrun.families.sentence_classification.vectors import Found
from phmrun.layers.structures.dense import Dense
from phmrun.models.lstm_classifier import own_vectors


class ClassificationModule(TrainingModule):
    """A network from sentences to class scores, trained on label-smoothed cross-entropy per item.

    Args:
        network: Takes the sentences of a batch of items, gives logits ``[batch, classes]``.
        optimizer: Builds the optimiser.
        schedule: Learning rate by optimizer step.
        smoothing: ε of the label smoothing.
    """

    counted = ("accuracy",)

    def __init__(
        self, network: nn.Module, optimizer: OptimizerBuilder, schedule: Schedule, *, smoothing: float = 0.0
    ) -> None:
        super().__init__(network, optimizer, schedule)
        self.smoothing = smoothing

    def loss(self, batch: ClassificationBatch) -> Loss:
        """Summed over the items of the batch."""
        (prediction,) = predictions = self.predictions(batch)
        logits = prediction.vectors
        nll = F.cross_entropy(logits, batch.labels, reduction="sum")
        total = nll
        if self.training and self.smoothing:
            total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.smoothing)
        hits = (logits.argmax(1) == batch.labels).sum()
        return Loss(total, nll, batch.units, {"accuracy": hits}, predictions)

    def predictions(self, batch: ClassificationBatch) -> list[Prediction]:
        """Of each item of the batch."""
        return [Prediction(self.network(*batch.sentences), nn.Identity())]

    def export_graph(self) -> ExportGraph:
        """From the tokens of the sentences to the scores of the classes."""
        from phmrun.families.sentence_classification.export import classification_graph

        return classification_graph(self.network, getattr(self.network, "sentences", 1))

    def begin(self, data: ClassificationData) -> None:
        """Puts pretrained word vectors, where the data bring some, into the network's own."""
        if data.pretrained is not None:
            place_vectors(self.network.get_submodule("embedding"), data.pretrained)


@torch.no_grad()
def place_vectors(embedding: nn.Module, pretrained: Found) -> None:
    """Gives words their pretrained vectors; the others get random ones of the same size.

    Args:
        embedding: With one dense table.
        pretrained: Vectors by word id.

    Raises:
        PhmrunError: The embedding has no such table, or one of another width.
    """
    tables = own_vectors(embedding)
    structure = tables[0].structure
    if len(tables) > 1 or not isinstance(structure, Dense):
        raise PhmrunError(
            "pretrained vectors need a table with a row for each word",
            where="embedding.structure",
            valid=("dense", "projective"),
        )
    if structure.in_features != pretrained.vectors.shape[1]:
        what = f"vectors of {pretrained.vectors.shape[1]} numbers do not fit a table of {structure.in_features}"
        raise PhmrunError(what, where="data.vectors")
    if len(pretrained.places):
        structure.reset_parameters(float(pretrained.vectors.std()))
        structure.matrix[torch.from_numpy(pretrained.places)] = torch.from_numpy(pretrained.vectors)
