"""Learning from a trained network's predictions beside the data's (Hinton, Vinyals and Dean 2015).

The loss of a unit is (1 - w)·L + w·T²·KL(p ‖ q), where L is the task's own loss, and p and q are the softmax of the
teacher's and of the student's logits / T; T² keeps the size of the gradients whatever T is (section 2 there). For
translation this is word-level distillation (Kim and Rush 2016, section 3.1).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

if TYPE_CHECKING:
    from phmrun.engine.module import TrainingModule


class Prediction(NamedTuple):
    """What a network predicts of each of some units.

    Attributes:
        vectors: What the logits are made from, ``[units, …]``.
        logits: From vectors to logits ``[units, classes]``; -inf rules a class out.
    """

    vectors: Tensor
    logits: Callable[[Tensor], Tensor]


class Teacher:
    """A trained module, from which another one learns.

    It is no part of the module that learns, nor of its checkpoints, but for what it remembers of the batches before.

    Args:
        module: The trained module; its weights stay as they are.
        weight: w.
        temperature: T.
    """

    def __init__(self, module: "TrainingModule", weight: float, temperature: float) -> None:
        self.module = module.requires_grad_(False)
        self.module.train()  # it goes through the training batches: a language model remembers those apart
        self.module.network.eval()
        self.weight = weight
        self.temperature = temperature

    def taught(self, loss: Tensor, predictions: Sequence[Prediction], batch: Any) -> Tensor:
        """The loss to minimise, summed over the units of a batch.

        Args:
            loss: The task's own.
            predictions: The student's.
            batch: What they are of.
        """
        if self.module.device != loss.device:
            self.module.to(loss.device)
        with torch.no_grad():
            wanted = [prediction.logits(prediction.vectors) for prediction in self.module.predictions(batch)]
        distance = torch.zeros_like(loss)
        for prediction, teacher in zip(predictions, wanted, strict=True):
            distance = distance + divergence(prediction.logits(prediction.vectors), teacher, self.temperature)
        return (1 - self.weight) * loss + self.weight * distance


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Σ T²·KL(softmax(teacher / T) ‖ softmax(student / T)) over the rows of logits ``[units, classes]``."""
    found = (student.float() / temperature).log_softmax(-1)
    wanted = (teacher.float() / temperature).log_softmax(-1)
    gap = torch.where(wanted.isfinite(), wanted - found, 0.0)  # what is ruled out adds nothing
    return temperature**2 * (wanted.exp() * gap).sum()
