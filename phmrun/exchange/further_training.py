"""Further training of a compressed network: its own schedule instead of the rest of its parent's."""

from collections.abc import Callable, Collection
from typing import Any

from phmrun.config.training import ScheduleConfig, TrainingConfig

RATE = 0.3
"""Default peak rate, as a share of the highest rate of the parent's training."""
WARMUP = 10
"""Share of the steps in the warm-up: one in this number."""


def further_training(
    training: TrainingConfig,
    schedule: Callable[[int], float],
    done: int,
    steps: int,
    chosen: Collection[str] = (),
    rate: float = RATE,
) -> TrainingConfig:
    """Return the training section of a compressed network's further steps.

    Its schedule is a cosine from ``rate`` times the parent's highest rate, to two digits, to 0, with a tenth of the
    steps as warm-up. Validations and checkpoints are at most ``steps`` apart. Checkpoints are not averaged, because the
    last rates are small. Without steps, only the limits are set: ``max_steps``, no ``max_epochs`` and no ``max_time``.
    Keys that the user has set are kept, except the first two limits.

    Args:
        training: The parent's section, with the user's changes.
        schedule: The parent's rate by step, from 1.
        done: Steps of the parent's training; at least 1 is read.
        steps: Steps of the further training.
        chosen: Dotted keys that the user has set, such as "training.optimizer.lr".
        rate: Peak rate, as a share of the parent's highest.
    """
    limits: dict[str, Any] = {"max_steps": steps, "max_epochs": None}
    if "training.max_time" not in chosen:
        limits["max_time"] = None
    if not steps:
        return training.model_copy(update=limits)
    peak = max(schedule(step) for step in range(1, max(done, 1) + 1))
    parts = {key.rpartition(".")[2] for key in chosen if key.startswith("training.schedule.")}
    shape = {key: getattr(training.schedule, key) for key in parts}
    usual: dict[str, Any] = {
        "schedule": ScheduleConfig(**{"name": "cosine", "warmup": steps // WARMUP, **shape}),
        "validate_every": min(training.validate_every, steps),
        "checkpoint_every": min(training.checkpoint_every, steps),
        "average": 0,
    }
    fixed = {key.split(".")[1] for key in chosen if key.startswith("training.")} - {"schedule"}
    update = {key: value for key, value in usual.items() if key not in fixed}
    if "training.optimizer.lr" not in chosen and usual["schedule"].name != "noam":  # noam has no rate of its own
        update["optimizer"] = training.optimizer.model_copy(update={"lr": float(f"{rate * peak:.2g}")})
    return training.model_copy(update={**update, **limits})
