"""Learning-rate schedules: rates as functions of the optimizer step, found in the registry by name. Imports no torch.

A schedule is a function of :class:`Settings`. All of ours rise linearly to the peak during the warm-up.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from phmrun.config import TrainingConfig
from phmrun.registry import SCHEDULES

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Settings:
    """Settings that a schedule may use.

    Args:
        warmup: Length of the linear warm-up, in optimizer steps.
        factor: Multiplies the noam schedule.
        width: Width of the network, for noam.
        lr: Peak learning rate, for all but noam.
        milestones: Optimizer steps, in rising order.
        decay: Factor of the rate after each milestone, or over each period.
        period: Optimizer steps.
        floor: Last rate of cosine and linear, as a share of the peak.
        total: Optimizer step at which they reach it.
    """

    warmup: int = 4000
    factor: float = 1.0
    width: int = 512
    lr: float | None = None
    milestones: Sequence[int] = ()
    decay: float = 0.1
    period: int = 5000
    floor: float = 0.0
    total: int = 1

    @property
    def peak(self) -> float:
        """Highest rate."""
        return self.lr or 0.0

    @property
    def rise(self) -> int:
        """Length of the warm-up, at least 1."""
        return max(self.warmup, 1)

    def warmed(self, step: int) -> float:
        """Return the rate of a constant schedule: the peak, after a linear rise."""
        return self.peak * min(step / self.rise, 1.0)

    def done(self, step: int) -> float:
        """Return the share of the steps after the warm-up that are done."""
        return min(max(step - self.warmup, 0) / max(self.total - self.warmup, 1), 1.0)

    def falling(self, step: int, left: float) -> float:
        """Return the rate of which the share ``left`` of the way to the floor is left."""
        return self.warmed(step) * (self.floor + (1 - self.floor) * left)


def noam(settings: Settings) -> Schedule:
    """Factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5) (Vaswani et al. 2017, section 5.3)."""
    return lambda step: settings.factor * settings.width**-0.5 * min(step**-0.5, step * settings.rise**-1.5)


def inverse_sqrt(settings: Settings) -> Schedule:
    """Lr · √(warmup / step)."""
    return lambda step: settings.peak * min(step / settings.rise, (settings.rise / step) ** 0.5)


def constant(settings: Settings) -> Schedule:
    """Lr."""
    return settings.warmed


def steps(settings: Settings) -> Schedule:
    """Lr · decay^m after m milestones."""
    return lambda step: settings.warmed(step) * settings.decay ** bisect_left(settings.milestones, step)


def exponential(settings: Settings) -> Schedule:
    """Lr · decay^(step / period)."""
    return lambda step: settings.warmed(step) * settings.decay ** (step / settings.period)


def cosine(settings: Settings) -> Schedule:
    """Lr · (floor + (1 - floor) · (1 + cos(π·t)) / 2), where t is the share of the steps done."""
    return lambda step: settings.falling(step, (1 + math.cos(math.pi * settings.done(step))) / 2)


def linear(settings: Settings) -> Schedule:
    """Lr · (floor + (1 - floor) · (1 - t)), where t is the share of the steps done."""
    return lambda step: settings.falling(step, 1 - settings.done(step))


def build_schedule(name: str = "noam", **settings: object) -> Schedule:
    """Return the learning rate as a function of the optimizer step, counted from 1.

    Args:
        name: A name of the registry: "noam", "inverse-sqrt", "cosine" …
        **settings: Those of :class:`Settings`.

    Raises:
        PhmrunError: There is no such schedule.
    """
    schedule: Schedule = SCHEDULES.get(name, where="training.schedule.name")(Settings(**settings))  # type: ignore[arg-type]
    return schedule


def schedule_from(training: TrainingConfig, width: int) -> Schedule:
    """Return the learning rate that a configuration describes, for a network of this width."""
    return build_schedule(
        **training.schedule.model_dump(), width=width, lr=training.optimizer.lr, total=training.max_steps or 1
    )
