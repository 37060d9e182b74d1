"""Learning to label: the cross-entropy of a network's class scores, and how many items they get right."""

from torch import nn
from torch.nn import functional as F

from phmrun.training.labelled import LabelledBatch
from phmrun.training.module import Loss, TrainingModule
from phmrun.training.optimizers import OptimizerBuilder, Schedule


class Classification(TrainingModule):
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

    def loss(self, batch: LabelledBatch) -> Loss:
        """Summed over the items of the batch."""
        logits = self.network(*batch.sentences)
        nll = F.cross_entropy(logits, batch.labels, reduction="sum")
        total = nll
        if self.training and self.smoothing:
            total = F.cross_entropy(logits, batch.labels, reduction="sum", label_smoothing=self.smoothing)
        hits = (logits.argmax(1) == batch.labels).sum()
        return Loss(total, nll, batch.units, {"accuracy": hits})
