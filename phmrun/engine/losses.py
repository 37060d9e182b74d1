"""Losses of classifiers, by the names of the registry.

A loss is a function ``loss(logits, targets, *, smoothing) -> Tensor`` of logits ``[items, classes]`` and class ids
``[items]``. It returns the sum over the items, in nats. Validations always report the cross-entropy.
"""

from collections.abc import Callable

from torch import Tensor
from torch.nn import functional as F

from phmrun.registry import LOSSES

Criterion = Callable[..., Tensor]


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Return the label-smoothed cross-entropy, summed over items, in nats.

    Σ_i (1 - ε)·(-log p_i[y_i]) + ε·mean_c(-log p_i[c]), where ε is ``smoothing``.
    """
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def criterion(name: str) -> Criterion:
    """Return the loss of a name.

    Raises:
        PhmrunError: (exit 2) There is no such loss.
    """
    loss: Criterion = LOSSES.get(name, where="training.loss")
    return loss
