"""Optimisers and learning-rate schedules, by the names that the config uses."""

from collections.abc import Callable, Iterable
from typing import Protocol

from torch import nn
from torch.optim import Adam, AdamW, Optimizer

from phmrun.errors import unknown

OPTIMIZERS: dict[str, type[Optimizer]] = {"adam": Adam, "adamw": AdamW}
Schedule = Callable[[int], float]


class OptimizerBuilder(Protocol):
    """Builds the optimiser of some parameters."""

    def __call__(self, parameters: Iterable[nn.Parameter], *, fused: bool = True) -> Optimizer:
        """``fused``: whether one kernel updates all parameters."""


def build_optimizer(
    parameters: Iterable[nn.Parameter],
    *,
    name: str = "adam",
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
    fused: bool = True,
) -> Optimizer:
    """An optimiser whose learning rate is 1, because the schedule gives the rate itself.

    Args:
        parameters: What to optimise.
        name: "adam" or "adamw".
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root in the update's denominator.
        weight_decay: L2 penalty (adam) or decay per unit of learning rate (adamw).
        fused: Whether one kernel updates all parameters.

    Raises:
        PhmrunError: There is no such optimiser.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS, where="training.optimizer.name")
    return OPTIMIZERS[name](parameters, lr=1.0, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused)  # type: ignore[call-arg]


def build_schedule(
    *, name: str = "noam", warmup: int = 4000, factor: float = 1.0, width: int = 512, lr: float | None = None
) -> Schedule:
    """The learning rate as a function of the optimizer step, counted from 1.

    Args:
        name: "noam": factor·width^-0.5·min(step^-0.5, step·warmup^-1.5) (Vaswani et al. 2017, section 5.3);
            "inverse-sqrt": lr·√(warmup/step) after a linear warm-up; "constant": lr after a linear warm-up.
        warmup: Length of the linear warm-up, in optimizer steps.
        factor: Multiplies the noam schedule.
        width: Width of the network, for noam.
        lr: Peak learning rate, for the others.

    Raises:
        PhmrunError: There is no such schedule.
    """
    peak = lr or 0.0
    rise = max(warmup, 1)
    schedules: dict[str, Schedule] = {
        "noam": lambda step: factor * width**-0.5 * min(step**-0.5, step * rise**-1.5),
        "inverse-sqrt": lambda step: peak * min(step / rise, (rise / step) ** 0.5),
        "constant": lambda step: peak * min(step / rise, 1.0),
    }
    if name not in schedules:
        raise unknown("schedule", name, schedules, where="training.schedule.name")
    return schedules[name]
