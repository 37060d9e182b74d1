"""SIGINT, SIGTERM and the time limit: training ends after the optimizer step that is being made, with a checkpoint."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from phmrun.engine.lightning import Callback, pl
from phmrun.engine.periodic_checkpoints import window_completed
from phmrun.engine.processes import largest
from phmrun.errors import Interrupted

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
        """Where a step has just been completed, all processes agree whether one of them was told to stop."""
        if not window_completed(trainer):
            return
        self.received = int(largest(self.received or 0, trainer.strategy.root_device)) or None
        if self.received and trainer.global_step < trainer.max_steps:
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
        self._began = 0.0

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Starts the clock."""
        self._began = time.monotonic()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """Looks at the clock, all processes at the one that began first."""
        if self.seconds is None or not window_completed(trainer):
            return
        over = largest(time.monotonic() - self._began, trainer.strategy.root_device) >= self.seconds
        if over and trainer.global_step < trainer.max_steps:
            self.reached = True
            trainer.should_stop = True
