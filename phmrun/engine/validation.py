"""Validation between optimizer steps, the best checkpoint, and early stopping.

It stands in a callback of its own, before the checkpoint of the same step, so that a checkpoint always lies after the
validation of its step and a resumed run neither repeats nor skips one. (Lightning's nested validation loop has several
restart stages, with other outcomes before and after its end.)
"""

import logging
import math
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from phmrun.engine.averaging import Averaging
from phmrun.engine.checkpoints import BEST, diverged
from phmrun.engine.lightning import Callback, pl
from phmrun.engine.periodic_checkpoints import save_weights, window_completed
from phmrun.engine.progress import Meter, Record

LOG = logging.getLogger("phmrun.engine")


class Validation(Callback):
    """Scores the model on the validation data every so many optimizer steps and at the end.

    Args:
        directory: Where ``best.ckpt`` goes.
        record: Takes a finished history row.
        meter: Keeps the time; settles the training loss first, so that no score is made of weights that are no numbers.
        every: Optimizer steps between validations.
        monitor: "loss" (lowest is best) or the name of a score of the module's (highest is).
        patience: Validations without a better score after which training stops; 0: never.
        averaging: What may put a mean of weights into their place.
    """

    def __init__(
        self,
        directory: Path,
        record: Record,
        meter: Meter,
        *,
        every: int,
        monitor: str,
        patience: int,
        averaging: Averaging | None = None,
    ) -> None:
        self.directory = directory
        self.record = record
        self.meter = meter
        self.every = every
        self.monitor = monitor
        self.patience = patience
        self.averaging = averaging
        self.best: float | None = None
        self.best_step = 0
        self.waited = 0
        self.stopped_early = False

    def state_dict(self) -> dict[str, Any]:
        """The best score so far, and how long ago it was."""
        return {"best": self.best, "best_step": self.best_step, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes both up again."""
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]
        self.waited = state_dict["waited"]

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Validates where a step has just been completed and a validation is due."""
        step = trainer.global_step
        if window_completed(trainer) and (step % self.every == 0 or step == trainer.max_steps):
            self.meter.settle()
            self.validate(trainer, module)

    def validate(self, trainer: pl.Trainer, module: Any) -> None:
        """Scores the model, keeps it if it is the best so far, and stops training if it has not been for too long."""
        with self.averaging.applied(module) if self.averaging else nullcontext():
            value = self._score(trainer, module)
        if self.averaging and self.averaging.observe(module, value if self.monitor == "loss" else -value):
            LOG.info("weights are averaged from step %s on", f"{trainer.global_step:,}")
        if self.patience and self.waited >= self.patience:
            self.stopped_early = True
            trainer.should_stop = True

    def _score(self, trainer: pl.Trainer, module: Any) -> float:
        """Records the scores, and keeps the weights if they are the best so far; the monitored score.

        Raises:
            PhmrunError: (exit 4) The loss is not finite, or the monitored score is no number.
        """
        data, objective = trainer.datamodule.source, module.objective  # type: ignore[attr-defined]
        scores = objective.validate(data.validation_batches())
        if self.monitor not in scores:
            scores.update(objective.validation_scores(data))
        self.record(
            {
                "step": trainer.global_step,
                "time": round(self.meter.elapsed(), 3),
                **{f"val/{name}": value for name, value in scores.items()},
            }
        )
        value: float = scores[self.monitor]
        if not math.isfinite(scores["loss"]) or math.isnan(value):
            name = "loss" if not math.isfinite(scores["loss"]) else self.monitor
            raise diverged(f"the validation's {name} is {scores[name]}", trainer.global_step)
        better = self.best is None or (value < self.best if self.monitor == "loss" else value > self.best)
        if better:
            self.best, self.best_step, self.waited = value, trainer.global_step, 0
            if trainer.is_global_zero:
                save_weights(self.directory / BEST, trainer)
        else:
            self.waited += 1
        return value
