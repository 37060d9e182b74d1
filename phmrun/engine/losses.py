"""Losses of networks that predict classes, by the names of the registry.

A loss is a function ``loss(logits, targets, *, smoothing) -> Tensor`` of logits ``[items, classes]`` and class numbers
``[items]``; it returns the sum over the items, in nats. Validations report the cross-entropy whatever the loss.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from phmrun.registry import LOSSES

Criterion = Callable[..., Tensor]


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Σ_i (1 - ε)·(-log p_i[y_i]) + ε·mean_c(-log p_i[c])."""
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def criterion(name: str) -> Criterion:
    """Return the loss of a name.

    Raises:
        PhmrunError: There is no such loss.
    """
    loss: Criterion = LOSSES.get(name, where="training.loss")
    return loss
