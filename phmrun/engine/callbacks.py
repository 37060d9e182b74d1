"""What happens between optimizer steps: checkpoints, validation, averaging, random states, signals and time limits.

Validation stands in a callback of its own, before the checkpoint of the same step, so that a checkpoint always lies
after the validation of its step and a resumed run neither repeats nor skips one. (Lightning's nested validation loop
has several restart stages, with other outcomes before and after its end.) Random states are the part of exact resume
that Lightning leaves out.
"""

import logging
import math
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from phmrun.engine.checkpoints import BEST, LAST, diverged, step_checkpoints, write_checkpoint
from phmrun.engine.lightning import Callback, pl, window_completed
from phmrun.engine.processes import Agreement, all_gather, rank
from phmrun.engine.progress import Meter, Record
from phmrun.errors import Interrupted
from phmrun.metric import metric_of

LOG = logging.getLogger("phmrun.engine")
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Stopping(Callback):
    """Stops training at the end of an optimizer step once a signal has come, to whichever of its processes.

    The second signal interrupts at once.

    Attributes:
        received: The signal, if one has come to this process.
        reached: Whether training was stopped for it.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self.reached = False
        self._agreement = Agreement()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Takes note of the signals in place of what else would come of them; only a main thread can."""
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
        """Takes SIGTERM back, whose handler Lightning has replaced by one that leaves without a checkpoint."""
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self._note)

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """After a step, stop if one of the processes was told to, by the step before if there are several."""
        if not window_completed(trainer):
            return
        agreed = int(self._agreement.all_reduce_max(self.received or 0, trainer.strategy.root_device))
        if agreed:
            self.received = agreed
        if agreed and trainer.global_step < trainer.max_steps:
            self.reached = True
            trainer.should_stop = True

    def _note(self, which: int, frame: Any) -> None:
        """The handler; writes nothing, since the signal may have come in the middle of a write."""
        if self.received is not None:
            raise Interrupted(which)
        self.received = which


class TimeLimit(Callback):
    """Stops training, at the end of an optimizer step, once this process has trained for so long.

    Args:
        seconds: The limit; ``None``: no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.reached = False
        self._agreement = Agreement()
        self._began = 0.0

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Starts the clock."""
        self._began = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Looks at the clock, all processes at the one that began first."""
        if self.seconds is None or not window_completed(trainer):
            return
        taken = self._agreement.all_reduce_max(time.monotonic() - self._began, trainer.strategy.root_device)
        over = taken >= self.seconds
        if over and trainer.global_step < trainer.max_steps:
            self.reached = True
            trainer.should_stop = True


class Randomness(Callback):
    """Saves every random state with a checkpoint, and restores it at the first batch of a resumed run.

    Not before: setting up loaders and models draws from the same generators. Each of several processes has states of
    its own, since it has drawn as much as its own batches took.
    """

    def __init__(self) -> None:
        self._restored: dict[str, Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """The states of torch, CUDA, NumPy and Python, as tensors and lists, of every process."""
        return {"states": all_gather(random_states())}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keeps this process's states for the first batch; where it has none, it goes on with those that it has."""
        states = state_dict["states"]
        states = states if isinstance(states, list) else [states]
        self._restored = states[rank()] if rank() < len(states) else None

    def on_train_batch_start(self, trainer: pl.Trainer, module: pl.LightningModule, batch: Any, index: int) -> None:
        """Restores them once."""
        if self._restored is not None:
            set_random_states(self._restored)
            self._restored = None


def random_states() -> dict[str, Any]:
    """All global random states, in types that load with ``weights_only=True``."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "python": [version, list(internal), gauss],
        "numpy": [str(name), torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
    }


def set_random_states(states: dict[str, Any]) -> None:
    """Puts back what :func:`random_states` took."""
    torch.set_rng_state(states["torch"].cpu())
    if states["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))


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


@dataclass(eq=False)
class Validation(Callback):
    """Scores the model on the validation data every so many optimizer steps and at the end.

    Args:
        directory: Where ``best.ckpt`` goes.
        record: Takes a finished history row.
        meter: Keeps the time; settles the training loss first, so that no score is made of weights that are no numbers.
        every: Optimizer steps between validations.
        monitor: "loss", or the name of a score of the module's.
        patience: Validations without a better score after which training stops; 0: never.
        averaging: What may put a mean of weights into their place.
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
        if self.averaging and self.averaging.observe(module, self._loss(value)):
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
        # Also where it is no number, so that the history shows at which step training left the numbers.
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
        """Return the monitored score with the sign at which lower is better."""
        return value if metric_of(self.monitor).lower_is_better else -value


@dataclass(eq=False)
class PeriodicCheckpoints(Callback):
    """Writes ``last.ckpt`` every so many optimizer steps or seconds and at the end, and the latest weights beside it.

    The weights beside it are those of every so many steps and of the end alone, so that their mean does not depend on
    when a run was stopped and continued.

    Args:
        directory: Where the files go.
        every: Optimizer steps between checkpoints.
        keep: How many of the latest weights are kept, for averaging.
        seconds: Most seconds between checkpoints.
        unfinished: Says whether training is being stopped before its end.
        before_writing: Called before each write; may refuse it.
    """

    directory: Path
    every: int
    keep: int
    seconds: float = math.inf
    unfinished: Callable[[], bool] = lambda: False
    before_writing: Callable[[], None] = lambda: None
    _agreement: Agreement = field(default_factory=Agreement, init=False)

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Starts the clock."""
        self._saved = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Saves where a step has just been completed and a checkpoint is due; last of all callbacks."""
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
        """Writes the checkpoints of this moment, the weights for averaging too where it is a ``regular`` one.

        That is on all processes, because Lightning gathers.

        Raises:
            PhmrunError: The weights are no longer numbers, or the disk is full (exit 4); the run was taken over.
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
    """Writes the module's ``state_dict`` and the step.

    Raises:
        PhmrunError: (exit 4) The disk is full.
    """
    weights = trainer.lightning_module.state_dict()
    write_checkpoint(path, {"state_dict": weights, "global_step": trainer.global_step})


def require_numbers(trainer: pl.Trainer) -> None:
    """Refuses weights that are infinite or no numbers, which are not worth a checkpoint.

    Raises:
        PhmrunError: (exit 4) Naming the parameter.
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
