"""Training of a module from its last checkpoint to the end, with exact resume."""

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
from phmrun.config.sections import seconds_of
from phmrun.engine.callbacks import Averaging, PeriodicCheckpoints, Stopping, Validation
from phmrun.engine.checkpoints import (
    LAST,
    adopt,
    load_checkpoint,
    load_weights,
    remove_after,
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
    pl,
)
from phmrun.engine.module import TrainingModule
from phmrun.engine.processes import Death, await_the_watch, ending_with, follower_died, keep_freed_memory
from phmrun.engine.progress import Meter, Record, TrainingProgress
from phmrun.engine.randomness import Randomness
from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.kernels.processor import has_bf16

LOG = logging.getLogger("phmrun.engine")

HISTORY_EVERY = 50
"""Optimizer steps between rows of the training loss in the history."""
FIXED_ORDER = "ddp_find_unused_parameters_true"
"""Lightning's name for DDP with a fixed order of gradients in the buffers that processes sum.

Other DDP reorders them after the first step of a process. The order of a sum of three or more numbers depends on their
place, so the first step after a resume would differ from the same step of an uninterrupted training.
"""


@dataclass(frozen=True)
class Fitted:
    """End of a training.

    Attributes:
        step: Optimizer steps so far.
        seconds: Seconds of training, summed over all continuations.
        best: Best monitored score; ``None`` without a validation.
        best_step: Optimizer step of the best score; 0 without a validation.
        complete: True if nothing is left to train.
        reason: Reason of the end in a phrase.
        signal: Number of the signal that was received; ``None`` if there was none.
    """

    step: int
    seconds: float
    best: float | None
    best_step: int
    complete: bool
    reason: str
    signal: int | None = None


def total_steps(training: TrainingConfig, hardware: HardwareConfig, data: DataModule) -> int:
    """Return the maximum number of optimizer steps.

    It is the smaller of ``max_steps`` and the steps in ``max_epochs`` (rounded up), or the one that is set. Logs a
    warning if ``max_epochs`` is reached first.

    Raises:
        PhmrunError: (exit 2) Neither ``max_steps`` nor ``max_epochs`` is set.
    """
    limits = [] if training.max_steps is None else [training.max_steps]
    if training.max_epochs is not None:
        limits.append(data.steps_in_epochs(training.max_epochs, processes(training, hardware)))
    if not limits:
        what = "neither max_steps nor max_epochs is set"
        raise PhmrunError(what, where="training.max_steps", hint="Give --max-steps or --max-epochs.")
    total = min(limits)
    if training.max_steps is not None and total < training.max_steps:
        what = "%s epochs are %s steps, fewer than training.max_steps: %s; for more, add --set training.max_epochs=null"
        LOG.warning(what, training.max_epochs, f"{total:,}", f"{training.max_steps:,}")
    return total


def processes(training: TrainingConfig, hardware: HardwareConfig) -> int:
    """Return the number of processes of a training on all machines.

    Lightning's trainer is built to find it.
    """
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
    """Train to the last step, or until patience, time limit or a signal.

    Logs a warning if bf16-mixed is slow on this processor. If no step is left (last step or patience reached), it
    returns at once, without training. The first signal ends training after the present step; the result has its number.
    Weights for averaging of later steps than the checkpoint are removed.

    Args:
        module: Module to train, in place; a checkpoint replaces its weights.
        data: Prepared data.
        training: Section ``training`` of the config.
        hardware: Section ``hardware`` of the config.
        directory: Directory of checkpoints; training continues from its ``last.ckpt`` if there is one.
        start: Directory of another run's checkpoints, copied if ``directory`` has none.
        record: Called with each history row.
        lines_every: Seconds between progress lines.
        resumed: Called with the step of the checkpoint, 0 without one, before training; also if no step is left, but
            not if the total is 0.
        before_writing: Called before each checkpoint; may raise to prevent it.
        died: Called when another process of this training has died, before this one exits.

    Raises:
        PhmrunError: (exit 4) The loss is not finite, or memory ran out; (exit 3) the checkpoint is damaged.
        KeyboardInterrupt: A second signal was received.
        PhmrunError: (exit 2) Neither ``max_steps`` nor ``max_epochs`` is set.
    """
    total = total_steps(training, hardware, data)
    if not total:
        return Fitted(0, 0.0, None, 0, True, "no step was asked for")
    if start is not None and not (directory / LAST).is_file():
        adopt(start, directory)
    last = directory / LAST if (directory / LAST).is_file() else None
    meter = Meter(record, HISTORY_EVERY)
    progress = TrainingProgress(lines_every, data.unit, total, meter)
    stopping, randomness = Stopping(seconds_of(training.max_time)), Randomness()
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
    if last is not None and not _load_progress(last, module, data, meter, validation):
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
        unfinished=lambda: stopping.reached,
        before_writing=before_writing,
    )
    looking = [validation, progress, stopping, checkpoints]  # in this order: a checkpoint comes last
    callbacks = [randomness, meter, *([averaging] if averaging else []), *looking]
    trainer = build_trainer(training, hardware, callbacks, directory, total, before_writing, bool(module.changing))
    if training.precision == "bf16-mixed" and trainer.strategy.root_device.type == "cpu" and not has_bf16():
        LOG.warning("this processor has no 16-bit arithmetic: bf16-mixed takes two to nine times as long as 32 on such")
    trainer.precision_plugin.convert_module(module)  # before loading a checkpoint, whose weights may have 64 bits
    keep_freed_memory()
    ended = follower_died(lambda: getattr(trainer.strategy.launcher, "procs", []))
    with ending_with(ended, died), stopping.listening():
        run_trainer(trainer, module, data, last)
    step = trainer.global_step
    reason = "the last step"
    if validation.stopped_early:
        reason = f"no better score in {training.patience} validations"
    elif stopping.reached and stopping.received:
        reason = f"by {Signals(stopping.received).name} at optimizer step {step:,} of {total:,}"
    elif stopping.reached:
        reason = f"the time limit of {training.max_time}"
    end = (step, meter.elapsed(), validation.best, validation.best_step)
    return Fitted(*end, not stopping.reached, reason, signal=stopping.received)


def _load_progress(last: Path, module: TrainingModule, data: DataModule, meter: Meter, validation: Validation) -> bool:
    """Load weights, step, sums and best score from a checkpoint, in place.

    Returns:
        True if training continues; False if the checkpoint has only initial weights. These are loaded in both cases.

    Raises:
        PhmrunError: (exit 3) The checkpoint is damaged, incomplete, or of a network with other names or shapes.
    """
    checkpoint = load_checkpoint(last)
    load_weights(module, weights_of(checkpoint, last), last)  # Lightning's error would not name the file
    if checkpoint.keys() <= {"state_dict", "global_step"} and not checkpoint.get("global_step"):
        return False  # weights of an imported or fitted run that was never trained
    if "callbacks" not in checkpoint:
        what = "training cannot go on from this checkpoint: it has weights alone"
        raise data_error(what, last, "Put a whole one in its place, or train anew: phmrun train … --restart.")
    data.start_step = checkpoint["global_step"]
    meter.load_state_dict(checkpoint["callbacks"][meter.state_key])
    validation.load_state_dict(checkpoint["callbacks"][validation.state_key])
    return True


class AtomicCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint files, written atomically.

    Args:
        before_renaming: Called before each file is renamed into place; may raise to prevent it.
    """

    def __init__(self, before_renaming: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.before_renaming = before_renaming

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Write ``checkpoint`` to ``path``, atomically.

        A reader sees the old or the new file. ``storage_options`` is ignored.
        """
        write_checkpoint(Path(path), checkpoint, self.before_renaming)


def build_trainer(
    training: TrainingConfig,
    hardware: HardwareConfig,
    callbacks: list[Callback],
    directory: Path,
    steps: int,
    before_writing: Callable[[], None] | None = None,
    unused: bool = False,
) -> pl.Trainer:
    """Return Lightning's trainer without its own logging, validation and checkpoints.

    It also shows no progress bar. More than two processes by DDP sum gradients in a fixed order, if the strategy is
    "auto" or "ddp". ``steps`` is the maximum number of optimizer steps, -1 for no limit. With ``unused``, some
    parameters may have no gradient in a step; then two processes sum like more than two.
    """
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
        default_root_dir=directory.parent,
        use_distributed_sampler=False,
        limit_val_batches=0,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    # Only a built trainer knows the number of processes.
    trainer = build(strategy=hardware.strategy)
    several = isinstance(trainer.strategy, DDPStrategy) and (trainer.world_size > 2 or unused)
    return build(strategy=FIXED_ORDER) if several and hardware.strategy in ("auto", "ddp") else trainer


def check_hardware(training: TrainingConfig, hardware: HardwareConfig) -> None:
    """Check that this machine has the configured accelerator, devices and strategy.

    Lightning's trainer is built for this.

    Raises:
        PhmrunError: (exit 2) It does not have them, or cannot compute with this precision.
    """
    if training.precision == "16-mixed" and (hardware.accelerator == "cpu" or not torch.cuda.is_available()):
        raise PhmrunError("16-mixed needs a GPU", where="training.precision", valid=("32", "bf16-mixed", "64"))
    try:
        build_trainer(training, hardware, [], Path(), 1)
    except (MisconfigurationException, ValueError, TypeError, ImportError) as error:
        what = f"accelerator or devices cannot be used here: {' '.join(str(error).split())}"
        raise PhmrunError(what, where="hardware", hint="`phmrun doctor` shows what this machine has.") from error


def run_trainer(trainer: pl.Trainer, module: TrainingModule, data: DataModule, checkpoint: Path | None) -> None:
    """Call ``trainer.fit`` with phmrun's exceptions for interrupts and lack of memory.

    Module and data hold the trainer meanwhile. Some warnings of Lightning and torch are hidden. Other errors are raised
    unchanged, after a wait of 10 seconds if the connection to another process was lost.

    Raises:
        PhmrunError: (exit 4) Memory ran out.
        KeyboardInterrupt: The user interrupted; Lightning raises ``SystemExit`` instead.
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
    # Lightning raises SystemExit on Ctrl-C, with the KeyboardInterrupt as its context.
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):  # a plug-in's exit
            raise
        raise error.__context__ from error
    except (MemoryError, RuntimeError) as error:
        message = str(error)
        lacks = "can't allocate memory" in message or "not enough memory" in message
        if lacks or isinstance(error, MemoryError | torch.OutOfMemoryError):
            what = f"out of memory: {message.splitlines()[0] if message else type(error).__name__}"
            hint = "Halve --batch-size and double --set training.accumulate=N: the optimizer steps stay the same."
            raise PhmrunError(what, hint=hint, code=ExitCode.TRAINING) from error
        await_the_watch(error)
        raise
    finally:
        module.trainer = data.trainer = None


def quiet_lightning() -> None:
    """Set Lightning's loggers to errors only, or to info if phmrun prints debug messages."""
    details = logging.getLogger("phmrun").isEnabledFor(logging.DEBUG)
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.INFO if details else logging.ERROR)
