"""Callbacks of training: checkpoints, random states, averaging, validation, signals, time limits.

Validation is a callback that runs before the checkpoint of the same step, so a resumed run neither repeats nor skips a
validation. Lightning's nested validation loop has several restart stages with different results. Lightning does not
save random states either; :class:`phmrun.engine.randomness.Randomness` does.
"""

import logging
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from phmrun.engine.checkpoints import BEST, LAST, diverged, step_checkpoints, write_checkpoint
from phmrun.engine.lightning import Callback, pl, window_completed
from phmrun.engine.processes import Agreement
from phmrun.engine.progress import Meter, Record
from phmrun.errors import Interrupted, counted
from phmrun.metric import metric_of


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


LOG = logging.getLogger("phmrun.engine")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping(Callback):
    """Stop of training after SIGINT, SIGTERM or a time limit, at the end of a step.

    A signal to any process stops all, and the longest time counts. A second signal interrupts its process at once.

    Args:
        seconds: Limit, counted from the start of this process's training; ``None``: no limit. Time of earlier processes
            of the run does not count.

    Attributes:
        received: Number of the signal; ``None`` if there was none.
        reached: True if training was stopped before its end.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = math.inf if seconds is None else seconds
        self.received: int | None = None
        self.reached = False
        self._agreement = Agreement()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM within the block.

        At the end restore the earlier handlers, after an error, too. Outside the main thread, do nothing.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {which: signal.signal(which, self._note) for which in SIGNALS}
        try:
            yield
        finally:
            for which, handler in before.items():
                signal.signal(which, handler)

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Start the clock, and set the SIGTERM handler again: Lightning's own exits without a checkpoint.

        Outside the main thread, no handler is set.
        """
        self._began = time.monotonic()
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Stop after an optimizer step if a process has received a signal or the limit is reached.

        If there are several processes, what came before the previous step's end counts. ``received`` becomes the
        largest number of all. Where training ends anyway, at the last step or by patience, ``reached`` stays False.
        """
        if not window_completed(trainer):
            return
        late = time.monotonic() - self._began >= self.seconds
        reason = self._agreement.all_reduce_max(self.received or late / 2, trainer.strategy.root_device)
        if reason >= 1:
            self.received = int(reason)
        if reason and not trainer.should_stop and trainer.global_step < trainer.max_steps:
            self.reached = trainer.should_stop = True

    def _note(self, which: int, frame: Any) -> None:
        """Note the first signal.

        Nothing is logged, because the signal may interrupt a write.

        Raises:
            Interrupted: It is the second signal.
        """
        if self.received is not None:
            raise Interrupted(which)
        self.received = which


@dataclass(eq=False)
class Validation(Callback):
    """Validation every ``every`` optimizer steps and at the end, with early stopping.

    Args:
        directory: Directory of ``best.ckpt``.
        record: Called with each history row.
        meter: Clock; its training loss is checked for NaN before each validation.
        every: Optimizer steps between validations.
        monitor: "loss", or the name of a validation score.
        patience: Validations without a better score after which training stops; 0: never.
        averaging: Averaging of weights; validations use the mean. Default: none.

    Attributes:
        best: Best monitored score; ``None`` before the first validation.
        best_step: Optimizer step of the best score.
        waited: Validations since the best score.
        stopped_early: True if ``patience`` has stopped training.
    """

    directory: Path
    record: Record
    meter: Meter
    _: KW_ONLY
    every: int
    monitor: str
    patience: int
    averaging: Averaging | None = None
    best: float | None = field(default=None, init=False)
    best_step: int = field(default=0, init=False)
    waited: int = field(default=0, init=False)
    stopped_early: bool = field(default=False, init=False)

    def state_dict(self) -> dict[str, Any]:
        """Return the best score, its step, and the number of validations since."""
        return {"best": self.best, "best_step": self.best_step, "waited": self.waited}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore best score, its step, and the number of validations since."""
        self.best, self.best_step = state_dict["best"], state_dict["best_step"]
        self.waited = state_dict["waited"]

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Validate after a completed optimizer step if a validation is due.

        That is every ``every`` steps, and at the last step. A training loss that is not finite stops training first.

        Raises:
            PhmrunError: (exit 4) A loss is not finite, or the monitored score is NaN.
        """
        step = trainer.global_step
        if window_completed(trainer) and (step % self.every == 0 or step == trainer.max_steps):
            self.meter.settle()
            began = time.monotonic()
            self.validate(trainer, module)
            self.meter.validating += time.monotonic() - began

    def validate(self, trainer: pl.Trainer, module: Any) -> None:
        """Score the model, save the best weights, and stop if patience has ended.

        If averaging has started, the weights' mean is scored and saved; the weights are then restored. A validation
        that starts it is logged. Patience ends after ``patience`` validations without a better score, each of which is
        logged with their number; 0 is no limit.

        Raises:
            PhmrunError: (exit 4) The loss is not finite, or the monitored score is NaN.
        """
        with self.averaging.applied(module) if self.averaging else nullcontext():
            value = self._score(trainer, module)
        if self.averaging and self.averaging.observe(module, self._loss(value)):
            LOG.info("weights are averaged from step %s on", f"{trainer.global_step:,}")
        if self.patience and self.waited:
            text = "no better score than at step %s for %s; training ends after %s"
            LOG.info(text, f"{self.best_step:,}", counted(self.waited, "validation"), self.patience)
        if self.patience and self.waited >= self.patience:
            self.stopped_early = True
            trainer.should_stop = True

    def _score(self, trainer: pl.Trainer, module: Any) -> float:
        """Record the scores, save better weights, and return the monitored score.

        The history's row has "step", "time" in seconds, and scores as "val/NAME". Scores of decoding are computed only
        if the monitored one is not among those of the loss. Updates ``best``, ``best_step`` and ``waited``. An equal
        score is not better. Only the first process saves.

        Raises:
            PhmrunError: (exit 4) The loss is not finite, or the monitored score is NaN; recorded before.
        """
        data, objective = trainer.datamodule.source, module.objective  # type: ignore[attr-defined]
        scores = objective.validate(data.validation_batches())
        if self.monitor not in scores:
            scores.update(objective.validation_scores(data))
        # Recorded even if it is NaN, so that the history shows the step at which training diverged.
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
        better = self.best is None or self._loss(value) < self._loss(self.best)
        if better:
            self.best, self.best_step, self.waited = value, trainer.global_step, 0
            if trainer.is_global_zero:
                save_weights(self.directory / BEST, trainer)
        else:
            self.waited += 1
        return value

    def _loss(self, value: float) -> float:
        """Return ``value``, a monitored score; negated if higher is better."""
        return value if metric_of(self.monitor).lower_is_better else -value


@dataclass(eq=False)
class PeriodicCheckpoints(Callback):
    """Checkpoints at regular steps, after a number of seconds, and at the end.

    ``last.ckpt`` is written each time. Weights for averaging (``step-<n>.ckpt``) are written at regular steps and at
    the end only, so their mean does not depend on interruptions.

    Args:
        directory: Directory of the files.
        every: Optimizer steps between checkpoints.
        keep: Number of latest weights to keep for averaging; none are kept unless it is at least 2.
        seconds: Maximum seconds between checkpoints.
        unfinished: Returns ``True`` if training is being stopped before its end.
        before_writing: Called before each write; may raise to prevent it.
    """

    directory: Path
    every: int
    keep: int
    seconds: float = math.inf
    unfinished: Callable[[], bool] = lambda: False
    before_writing: Callable[[], None] = lambda: None
    _agreement: Agreement = field(default_factory=Agreement, init=False)

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Start the clock."""
        self._saved = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Save after a completed optimizer step if a checkpoint is due.

        That is every ``every`` steps, ``seconds`` after the last checkpoint by any process's clock (late by a step with
        several processes), and when training stops. Weights for averaging are kept every ``every`` steps, and at an end
        that is no interruption. This callback must be the last one.
        """
        if not window_completed(trainer):
            return
        step = trainer.global_step
        ends = step == trainer.max_steps or (trainer.should_stop and not self.unfinished())
        regular = step % self.every == 0 or ends
        waited = self._agreement.all_reduce_max(time.monotonic() - self._saved, trainer.strategy.root_device)
        late = waited >= self.seconds
        if regular or late or trainer.should_stop:
            self.save(trainer, regular)

    def save(self, trainer: pl.Trainer, regular: bool) -> None:
        """Write ``last.ckpt``, and the weights for averaging at a ``regular`` step.

        The latter are written only if ``keep`` is at least 2. Older weights than the ``keep`` latest are deleted.
        ``before_writing`` is called first, and the clock starts anew. All processes must call it, because Lightning
        gathers their states.

        Raises:
            PhmrunError: The weights are not finite or the disk is full (exit 4), or the run was taken over (exit 2).
        """
        require_numbers(trainer)
        self.before_writing()
        if regular and self.keep > 1 and trainer.is_global_zero:
            save_weights(self.directory / f"step-{trainer.global_step:09d}.ckpt", trainer)
            for old in step_checkpoints(self.directory)[: -self.keep]:
                old.unlink()
        trainer.save_checkpoint(self.directory / LAST)
        self._saved = time.monotonic()


def save_weights(path: Path, trainer: pl.Trainer) -> None:
    """Write "state_dict" and "global_step" to ``path``, atomically.

    Raises:
        PhmrunError: (exit 4) The disk is full.
    """
    weights = trainer.lightning_module.state_dict()
    write_checkpoint(path, {"state_dict": weights, "global_step": trainer.global_step})


def require_numbers(trainer: pl.Trainer) -> None:
    """Check that all parameters are finite; buffers are not checked.

    Raises:
        PhmrunError: (exit 4) Training has diverged; names the first such parameter.
    """
    named = [
        (name, weight.detach())
        for name, weight in cast(nn.Module, trainer.lightning_module.objective).named_parameters()
        if weight.numel()
    ]
    largest_ones = torch._foreach_norm([weight for _, weight in named], float("inf"))
    if torch.stack([norm.double() for norm in largest_ones]).isfinite().all():
        return
    name = next(name for (name, _), norm in zip(named, largest_ones, strict=True) if not norm.isfinite())
    raise diverged(f"the weights {name} are no longer numbers", trainer.global_step)
