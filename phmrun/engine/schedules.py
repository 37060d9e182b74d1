"""Learning-rate schedules of the registry: rates by optimizer step.

Imports no torch.

The registry has functions from :class:`Settings` to a schedule. All built-in schedules rise linearly to the peak during
the warm-up.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from phmrun.config import TrainingConfig
from phmrun.errors import PhmrunError
from phmrun.registry import SCHEDULES

Schedule = Callable[[int], float]


@dataclass(frozen=True)
class Settings:
    """Settings that a schedule may use.

    Args:
        warmup: Optimizer steps of the linear warm-up.
        factor: Factor of the rate, for noam.
        width: Width of the network, for noam.
        lr: Peak learning rate, for all schedules except noam.
        milestones: Optimizer steps in ascending order, for steps.
        decay: Factor of the rate after each milestone (steps) or over each period (exponential).
        period: Optimizer steps of a period, for exponential.
        floor: Last rate as a share of the peak, for cosine and linear.
        total: Optimizer step at which the floor is reached, for schedules that call :meth:`done`; None: not known.
    """

    warmup: int = 4000
    factor: float = 1.0
    width: int = 512
    lr: float | None = None
    milestones: Sequence[int] = ()
    decay: float = 0.1
    period: int = 5000
    floor: float = 0.0
    total: int | None = None

    @property
    def peak(self) -> float:
        """Peak learning rate ``lr``; 0 if it is not set."""
        return self.lr or 0.0

    @property
    def rise(self) -> int:
        """Length of the warm-up, at least 1."""
        return max(self.warmup, 1)

    def warmed(self, step: int) -> float:
        """Return the peak after the warm-up, peak · step / warm-up before."""
        return self.peak * min(step / self.rise, 1.0)

    def done(self, step: int) -> float:
        """Return the completed share (0 to 1) of the fall.

        It is counted in steps, from the end of the warm-up to the total.

        Raises:
            PhmrunError: (exit 2) The total is not known.
        """
        if self.total is None:
            raise PhmrunError("the schedule ends at training.max_steps, which is not set", where="training.schedule")
        return min(max(step - self.warmup, 0) / max(self.total - self.warmup, 1), 1.0)

    def falling(self, step: int, left: float) -> float:
        """Return the rate if the share ``left`` (0 to 1) of the fall remains.

        It is :meth:`warmed` · (floor + (1 - floor) · left).
        """
        return self.warmed(step) * (self.floor + (1 - self.floor) * left)


def noam(settings: Settings) -> Schedule:
    """Schedule factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5).

    Source: Vaswani et al. 2017, section 5.3.
    """
    return lambda step: settings.factor * settings.width**-0.5 * min(step**-0.5, step * settings.rise**-1.5)


def inverse_sqrt(settings: Settings) -> Schedule:
    """Schedule lr · √(warmup / step) after a linear warm-up."""
    return lambda step: settings.peak * min(step / settings.rise, (settings.rise / step) ** 0.5)


def constant(settings: Settings) -> Schedule:
    """Constant schedule lr after a linear warm-up from 0."""
    return settings.warmed


def steps(settings: Settings) -> Schedule:
    """Schedule lr · decay^m after m milestones, times a linear warm-up.

    A milestone counts from the step after it.
    """
    return lambda step: settings.warmed(step) * settings.decay ** bisect_left(settings.milestones, step)


def exponential(settings: Settings) -> Schedule:
    """Schedule lr · decay^(step / period), times a linear warm-up. The step counts from the start of training."""
    return lambda step: settings.warmed(step) * settings.decay ** (step / settings.period)


def cosine(settings: Settings) -> Schedule:
    """Schedule lr · (floor + (1 - floor) · (1 + cos(π·t)) / 2).

    t is the completed share of the steps after the warm-up. Within the warm-up, t is 0, and the rate rises linearly.
    """
    return lambda step: settings.falling(step, (1 + math.cos(math.pi * settings.done(step))) / 2)


def linear(settings: Settings) -> Schedule:
    """Schedule lr · (floor + (1 - floor) · (1 - t)).

    t is the completed share of the steps after the warm-up. Within the warm-up, t is 0, and the rate rises linearly.
    """
    return lambda step: settings.falling(step, 1 - settings.done(step))


def build_schedule(name: str, **settings: object) -> Schedule:
    """Return the learning rate as a function of the optimizer step.

    Steps are counted from 1. The rate of the first is computed once, so that an error shows here.

    Args:
        name: Name in the registry: "noam", "inverse-sqrt", "cosine" …
        **settings: Arguments of :class:`Settings`.

    Raises:
        PhmrunError: (exit 2) There is no such schedule.
        TypeError: The registered object returns no function.
    """
    factory = SCHEDULES.get(name, where="training.schedule.name")
    schedule: Schedule = factory(Settings(**settings))  # type: ignore[arg-type]
    if not callable(schedule):
        raise TypeError(f"the schedule {name!r} must return a function of the step, not {schedule!r:.40}")
    schedule(1)
    return schedule


def schedule_from(training: TrainingConfig, width: int) -> Schedule:
    """Return the schedule of a config, for a network of this width.

    The total is ``max_steps``, at least 1; not known if that is not set. ``max_epochs`` does not count.

    Raises:
        PhmrunError: (exit 2) There is no such schedule.
    """
    total = None if training.max_steps is None else max(training.max_steps, 1)
    return build_schedule(**training.schedule.model_dump(), width=width, lr=training.optimizer.lr, total=total)
