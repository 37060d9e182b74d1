"""One call that trains a module from where it stands to its end, exactly resumable."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Any

import torch

from phmrun.config import HardwareConfig, TrainingConfig
from phmrun.engine.callbacks import Averaging, PeriodicCheckpoints, Randomness, Stopping, TimeLimit, Validation
from phmrun.engine.checkpoints import (
    BEST,
    LAST,
    LAYOUT,
    adopt,
    layout,
    load_checkpoint,
    load_weights,
    remove_after,
    require_whole,
    weights_of,
    write_checkpoint,
)
from phmrun.engine.data import DataModule
from phmrun.engine.lightning import (
    Callback,
    DDPStrategy,
    LightningData,
    LightningTraining,
    MisconfigurationException,
    TorchCheckpointIO,
    Unprofiled,
    pl,
)
from phmrun.engine.module import TrainingModule
from phmrun.engine.processes import Death, await_the_watch, ending_with, follower_died, keep_freed_memory
from phmrun.engine.progress import Meter, Record, TrainingProgress
from phmrun.errors import ExitCode, PhmrunError
from phmrun.kernels import has_bf16

LOG = logging.getLogger("phmrun.engine")

HISTORY_EVERY = 50
"""Optimizer steps between rows of the training loss in the history."""
FIXED_ORDER = "ddp_find_unused_parameters_true"
"""Lightning's name for DDP that keeps gradients where they are in the buffers that processes sum. DDP sorts them anew
after the first step of a process otherwise, and the order in which three numbers or more are summed is one of place:
the first step after a resume would sum in another order than the same step of a training that nobody interrupted."""


@dataclass(frozen=True)
class Fitted:
    """How training ended.

    Attributes:
        seconds: Seconds of training, over all the times that the run was continued.
        complete: Whether there is nothing left to train.
        signal: The signal that has come meanwhile, if one has.
    """

    step: int
    seconds: float
    best: float | None
    best_step: int
    complete: bool
    reason: str
    signal: int | None = None


def total_steps(training: TrainingConfig, hardware: HardwareConfig, data: DataModule) -> int:
    """Optimizer steps that training takes at most; where the epochs end before the steps asked for, a warning.

    Raises:
        PhmrunError: Nothing limits them.
    """
    limits = [] if training.max_steps is None else [training.max_steps]
    if training.max_epochs is not None:
        limits.append(data.steps_in_epochs(training.max_epochs, processes(training, hardware)))
    if not limits:
        raise PhmrunError("training has no end", where="training.max_steps", hint="Give --max-steps or --max-epochs.")
    total = min(limits)
    if training.max_steps is not None and total < training.max_steps:
        what = "%s epochs are %s steps, fewer than training.max_steps: %s; for more, add --set training.max_epochs=null"
        LOG.warning(what, training.max_epochs, f"{total:,}", f"{training.max_steps:,}")
    return total


def processes(training: TrainingConfig, hardware: HardwareConfig) -> int:
    """How many processes train together."""
    return build_trainer(training, hardware, [], Path(), -1).world_size


def fit(
    module: TrainingModule,
    data: DataModule,
    training: TrainingConfig,
    hardware: HardwareConfig,
    *,
    directory: Path,
    start: Path | None,
    record: Record,
    lines_every: float,
    resumed: Callable[[int], None],
    before_writing: Callable[[], None] = lambda: None,
    died: Callable[[Death], None] = lambda _: None,
) -> Fitted:
    """Trains until the last step, the end of patience or the time limit.

    Args:
        module: What to train; its weights are replaced by the checkpoint's where there is one.
        data: The prepared data.
        training: Length, validation, checkpoints.
        hardware: The machine.
        directory: Where checkpoints go, and where a former process has left its own.
        start: Another run's checkpoints, to start from where ``directory`` has none.
        record: Takes history rows.
        lines_every: Seconds between progress lines.
        resumed: Told the step at which a former process left off, 0 where there is no checkpoint, before training.
        before_writing: Called before each checkpoint; may refuse it.
        died: Told of the death of another process of this training, before this one ends too.

    Raises:
        PhmrunError: (exit 4) The loss is no number, or memory ran out.
    """
    total = total_steps(training, hardware, data)
    if not total:
        return Fitted(0, 0.0, None, 0, True, "no step was asked for")
    if start is not None and not (directory / LAST).is_file():
        adopt(start, directory)
    last = directory / LAST if (directory / LAST).is_file() else None
    meter, progress = Meter(record, HISTORY_EVERY), TrainingProgress(lines_every, data.unit, total)
    limit, stopping, randomness = TimeLimit(training.max_seconds), Stopping(), Randomness()
    averaging = Averaging(training.average_after) if training.average_after else None
    validation = Validation(
        directory,
        record,
        meter,
        every=training.validate_every,
        monitor=training.monitor,
        patience=training.patience,
        averaging=averaging,
    )
    if last is not None and not _taken_up(last, module, data, meter, validation):
        last = None
    remove_after(directory, data.start_step)
    resumed(data.start_step)
    patient = not training.patience or validation.waited < training.patience
    if data.start_step >= total or not patient:
        reason = "the last step" if data.start_step >= total else "patience"
        return Fitted(data.start_step, meter.seconds, validation.best, validation.best_step, True, reason)
    checkpoints = PeriodicCheckpoints(
        directory,
        training.checkpoint_every,
        training.keep_last,
        seconds=60 * training.checkpoint_minutes,
        unfinished=lambda: limit.reached or stopping.reached,
        before_writing=before_writing,
    )
    looking = [validation, progress, limit, stopping, checkpoints]  # in this order: a checkpoint comes last
    callbacks = [randomness, meter, *([averaging] if averaging else []), *looking]
    trainer = build_trainer(training, hardware, callbacks, directory, total, before_writing)
    if training.precision == "bf16-mixed" and trainer.strategy.root_device.type == "cpu" and not has_bf16():
        LOG.warning("this processor has no 16-bit arithmetic: bf16-mixed takes two to nine times as long as 32 on such")
    trainer.precision_plugin.convert_module(module)  # before a checkpoint's weights come: they may have 64 bits
    keep_freed_memory()
    ended = follower_died(lambda: getattr(trainer.strategy.launcher, "procs", []))
    with ending_with(ended, died), stopping.listening():
        run_trainer(trainer, module, data, last)
    step = trainer.global_step
    reason = "the last step"
    if stopping.reached:
        reason = f"by {Signals(stopping.received or 0).name} at optimizer step {step:,} of {total:,}"
    elif validation.stopped_early:
        reason = f"no better score in {training.patience} validations"
    elif limit.reached:
        reason = f"the time limit of {training.max_time}"
    complete = not (limit.reached or stopping.reached)
    return Fitted(
        step, meter.elapsed(), validation.best, validation.best_step, complete, reason, signal=stopping.received
    )


def _taken_up(last: Path, module: TrainingModule, data: DataModule, meter: Meter, validation: Validation) -> bool:
    """Takes weights, place in the data and sums from a checkpoint; whether training goes on from it, or begins."""
    checkpoint = load_checkpoint(last)
    load_weights(module, weights_of(checkpoint, last), last)  # Lightning would not say whose file does not fit
    if checkpoint.keys() <= {"state_dict", "global_step"} and not checkpoint.get("global_step"):
        return False  # of a run that was imported, or fitted, and never trained: weights alone
    require_whole(checkpoint, last)
    data.start_step = checkpoint["global_step"]
    meter.load_state_dict(checkpoint["callbacks"][meter.state_key])
    validation.load_state_dict(checkpoint["callbacks"][validation.state_key])
    if validation.best is not None and not (last.parent / BEST).is_file():
        what = "%s is missing: the weights of the best validation, at optimizer step %s, are lost"
        LOG.warning(what, last.parent / BEST, f"{validation.best_step:,}")
    return True


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


def build_trainer(
    training: TrainingConfig,
    hardware: HardwareConfig,
    callbacks: list[Callback],
    directory: Path,
    steps: int,
    before_writing: Callable[[], None] | None = None,
) -> pl.Trainer:
    """Lightning's trainer, with everything that the runner does itself switched off."""
    build = partial(
        pl.Trainer,
        accelerator=hardware.accelerator,
        devices=hardware.devices,
        num_nodes=hardware.nodes,
        precision=training.precision,
        deterministic=hardware.deterministic or None,
        max_steps=steps,
        max_epochs=-1,
        accumulate_grad_batches=training.accumulate,
        gradient_clip_val=training.clip or None,
        callbacks=callbacks,
        plugins=[AtomicCheckpointIO(before_writing)],
        profiler=Unprofiled(),
        default_root_dir=directory.parent,
        use_distributed_sampler=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # How many processes there are, only a trainer that has been built can tell.
    trainer = build(strategy=hardware.strategy)
    several = isinstance(trainer.strategy, DDPStrategy) and trainer.world_size > 2
    return build(strategy=FIXED_ORDER) if several and hardware.strategy in ("auto", "ddp") else trainer


def check_hardware(training: TrainingConfig, hardware: HardwareConfig) -> None:
    """Refuses an accelerator, devices or a strategy that this machine does not have, before anything is written.

    Raises:
        PhmrunError: (exit 2) In Lightning's words.
    """
    try:
        build_trainer(training, hardware, [], Path(), 1)
    except (MisconfigurationException, ValueError, TypeError, ImportError) as error:
        what = (
            f"accelerator {hardware.accelerator}, devices {hardware.devices}, strategy {hardware.strategy} "
            f"cannot be used here: {' '.join(str(error).split())}"
        )
        raise PhmrunError(what, where="hardware", hint="`phmrun doctor` shows what this machine has.") from error


def run_trainer(trainer: pl.Trainer, module: TrainingModule, data: DataModule, checkpoint: Path | None) -> None:
    """``trainer.fit`` with its interruptions and lacks of memory as exceptions of ours.

    Raises:
        PhmrunError: (exit 4) Memory ran out.
        KeyboardInterrupt: The user interrupted; Lightning turns that into an exit of its own.
    """
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*does not have many workers.*")
            warnings.filterwarnings("ignore", message=".*treespec.*", category=FutureWarning)
            warnings.filterwarnings("ignore", message=".*find_unused_parameters=True was specified.*")
            module.trainer = data.trainer = trainer
            trainer.fit(
                LightningTraining(module), datamodule=LightningData(data), ckpt_path=checkpoint, weights_only=True
            )
    # Lightning makes an exit of Ctrl-C, whose context is the interruption.
    except SystemExit as error:
        if not trainer.interrupted:
            raise
        raise (error.__context__ if isinstance(error.__context__, KeyboardInterrupt) else KeyboardInterrupt) from error
    except (MemoryError, RuntimeError) as error:
        said = str(error)
        lacks = "can't allocate memory" in said or "not enough memory" in said
        if lacks or isinstance(error, MemoryError | torch.OutOfMemoryError):
            raise PhmrunError(
                f"out of memory: {said.splitlines()[0] if said else type(error).__name__}",
                hint="Halve --batch-size and double --accumulate: the optimizer steps stay the same.",
                code=ExitCode.TRAINING,
            ) from error
        await_the_watch(error)
        raise
    finally:
        module.trainer = data.trainer = None


def quiet_lightning(details: bool) -> None:
    """Silences Lightning's own messages, which say what phmrun says itself."""
    for name in ("pytorch_lightning", "lightning", "lightning.pytorch", "lightning.fabric", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.INFO if details else logging.ERROR)
