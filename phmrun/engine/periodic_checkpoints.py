"""When a run in training writes its checkpoints, and what Lightning puts in them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import torch
from torch import nn

from phmrun.engine.checkpoints import LAST, LAYOUT, diverged, layout, step_checkpoints, write_checkpoint
from phmrun.engine.lightning import Callback, TorchCheckpointIO, pl
from phmrun.engine.processes import largest


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint files, written beside, flushed to disk and renamed.

    Args:
        before_renaming: Called before that; may refuse it.
    """

    def __init__(self, before_renaming: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.before_renaming = before_renaming

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Writes ``checkpoint`` to ``path``; a reader sees the old file or the new one."""
        write_checkpoint(Path(path), {**checkpoint, LAYOUT: layout(checkpoint)}, self.before_renaming)


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

    def __init__(
        self,
        directory: Path,
        every: int,
        keep: int,
        seconds: float = float("inf"),
        unfinished: Callable[[], bool] = lambda: False,
        before_writing: Callable[[], None] = lambda: None,
    ) -> None:
        self.directory = directory
        self.every = every
        self.keep = keep
        self.seconds = seconds
        self.unfinished = unfinished
        self.before_writing = before_writing
        self._saved = time.monotonic()

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
        late = largest(time.monotonic() - self._saved, trainer.strategy.root_device) >= self.seconds
        if regular or late or trainer.should_stop:
            self.save(trainer, regular)

    def save(self, trainer: pl.Trainer, regular: bool) -> None:
        """Writes the checkpoints of this moment; on all processes, because Lightning gathers.

        Args:
            trainer: Whose they are.
            regular: Whether the weights are also kept for averaging.

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


def window_completed(trainer: pl.Trainer) -> bool:
    """Whether the batch that has just been processed completed an optimizer step."""
    return trainer.fit_loop.epoch_loop.batch_progress.total.ready % trainer.accumulate_grad_batches == 0


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
