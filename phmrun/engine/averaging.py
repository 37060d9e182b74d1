"""Mean of the weights over the last steps, used if the validation score no longer improves."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from phmrun.engine.lightning import Callback, pl, window_completed


class Averaging(Callback):
    """Non-monotonically triggered averaging of weights (Merity et al. 2018, algorithm 1).

    It starts after a validation that is worse than the best one, not counting the last ``patience``. From then on, the
    mean over all steps is validated and saved as the best checkpoint. Training goes on with the weights themselves.

    Args:
        patience: Number of latest validations that do not count; 0: all count.
    """

    def __init__(self, patience: int) -> None:
        self.patience = patience
        self.losses: list[float] = []
        self.steps = 0
        self.mean: list[Tensor] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return "losses" of all validations, the "mean" (or None) and its number of "steps"."""
        return {"losses": list(self.losses), "steps": self.steps, "mean": self.mean}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore losses, mean and its number of steps."""
        self.losses, self.steps = list(state_dict["losses"]), state_dict["steps"]
        self.mean = state_dict["mean"]

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Add the weights of a completed optimizer step to the mean, in place.

        All steps have equal weight. Does nothing before averaging has started, and within an accumulation window.
        """
        if self.mean is None or not window_completed(trainer):
            return
        weights = _weights(module)
        self.mean = [mean.to(weight.device) for mean, weight in zip(self.mean, weights, strict=True)]
        self.steps += 1
        torch._foreach_lerp_(self.mean, weights, 1 / self.steps)

    def observe(self, module: pl.LightningModule, loss: float) -> bool:
        """Add a validation; return True if averaging starts after it.

        It starts once, when the score is worse than the best of all earlier validations but the last ``patience``. The
        first weights of the mean are those of the next optimizer step.

        Args:
            module: Trained module.
            loss: Monitored score; lower is better.
        """
        long_before = self.losses[: -self.patience] if self.patience else self.losses
        starts = self.mean is None and bool(long_before) and loss > min(long_before)
        if starts:
            self.mean = [weight.clone() for weight in _weights(module)]
        self.losses.append(loss)
        return starts

    @contextmanager
    def applied(self, module: pl.LightningModule) -> Iterator[None]:
        """Replace the weights by their mean within the block.

        They are restored afterwards, after an error, too. Does nothing if there is no mean, or no step in it. Untrained
        parameters stay.
        """
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
    """Return the trainable parameters, each once, as detached views."""
    return [parameter.detach() for parameter in module.parameters() if parameter.requires_grad]
