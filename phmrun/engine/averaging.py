"""The mean of the weights over training's last steps, once validation scores no longer fall (NT-ASGD)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from phmrun.engine.lightning import Callback, pl, window_completed


class Averaging(Callback):
    """Averages the weights over all steps after the first validation that is worse than long before.

    That is non-monotonically triggered averaging (Merity et al. 2018, algorithm 1): a validation score that is worse
    than the best of all but the last few starts it. From then on, validations and the best checkpoint take the mean,
    while training goes on with the weights themselves.

    Args:
        patience: How many of the last validations do not count as long before.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.losses: list[float] = []
        self.steps = 0
        self.mean: list[Tensor] | None = None

    def state_dict(self) -> dict[str, Any]:
        """The validation scores so far, and the mean with the number of its steps."""
        return {"losses": list(self.losses), "steps": self.steps, "mean": self.mean}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes all of it up again."""
        self.losses, self.steps = list(state_dict["losses"]), state_dict["steps"]
        self.mean = state_dict["mean"]

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Takes the weights of the step that has just been completed into the mean."""
        if self.mean is None or not window_completed(trainer):
            return
        weights = _weights(module)
        self.mean = [mean.to(weight.device) for mean, weight in zip(self.mean, weights, strict=True)]
        self.steps += 1
        torch._foreach_lerp_(self.mean, weights, 1 / self.steps)

    def observe(self, module: pl.LightningModule, loss: float) -> bool:
        """Takes note of a validation; says whether averaging starts after it."""
        long_before = self.losses[: -self.patience] if self.patience else self.losses
        starts = self.mean is None and bool(long_before) and loss > min(long_before)
        if starts:
            self.mean = [weight.clone() for weight in _weights(module)]
        self.losses.append(loss)
        return starts

    @contextmanager
    def applied(self, module: pl.LightningModule) -> Iterator[None]:
        """The mean in the place of the weights, if there is one."""
        if self.mean is None or not self.steps:
            yield
            return
        weights = _weights(module)
        kept = [weight.clone() for weight in weights]
        torch._foreach_copy_(weights, self.mean)
        try:
            yield
        finally:
            torch._foreach_copy_(weights, kept)


def _weights(module: pl.LightningModule) -> list[Tensor]:
    """What training changes, each tensor once."""
    return [parameter.detach() for parameter in module.parameters() if parameter.requires_grad]
