"""What a person sees while a model trains: a bar on a terminal, a line every few seconds anywhere else."""

import logging
import sys
import time
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from phmrun.engine.lightning import Callback, pl
from phmrun.engine.meter import current_rate
from phmrun.engine.periodic_checkpoints import window_completed

LOG = logging.getLogger("phmrun.engine")
MEMORY = 0.98
"""How much of the shown loss is its earlier value, per optimizer step."""


def training_bar(total: int, console: Console) -> Progress:
    """A bar of ``total`` optimizer steps; in a narrow terminal it shrinks first, then the text is cut at its end."""

    def fixed(width: int) -> Column:
        return Column(no_wrap=True, min_width=width)

    columns = (
        TextColumn("training", table_column=fixed(len("training"))),
        BarColumn(),
        MofNCompleteColumn(table_column=fixed(2 * len(str(total)) + 1)),
        TimeRemainingColumn(table_column=fixed(len("0:00:00"))),
        TextColumn("{task.description}", table_column=Column(no_wrap=True)),
    )
    return Progress(*columns, console=console, transient=True)


class TrainingProgress(Callback):
    """Shows steps, loss (nats per unit, smoothed over about 50 steps), learning rate, units per second and time left.

    Args:
        every: Seconds between lines where stderr is no terminal.
        unit: What is counted: "tokens", "items".
        total: Optimizer steps that training will take at most.
    """

    def __init__(self, every: float, unit: str, total: int) -> None:
        self.every = every
        self.unit = unit
        self.total = total
        self.loss: float | None = None
        self._units = 0
        self._last = 0.0
        self._began = (0.0, 0)
        self._bar: Progress | None = None

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Opens the bar, or notes the time."""
        self._last = time.monotonic()
        self._began = (self._last, trainer.global_step)
        if trainer.is_global_zero and sys.stderr.isatty():
            self._bar = training_bar(self.total, Console(stderr=True))
            self._bar.add_task("", total=self.total, completed=trainer.global_step)
            self._bar.start()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        """Moves the bar, or writes a line if the last one is old enough."""
        self._units += outputs["units"] * trainer.world_size
        now = time.monotonic()
        due = now - self._last >= (0.5 if self._bar else self.every)
        if not window_completed(trainer) or not trainer.is_global_zero:
            return
        if module.device.type == "cpu" or due:
            value = float(outputs["nll"]) / outputs["units"]
            self.loss = value if self.loss is None else MEMORY * self.loss + (1 - MEMORY) * value
        if not due and trainer.global_step != self.total:
            return
        pace = self._units / max(now - self._last, 1e-9)
        self._last, self._units = now, 0
        text = f"smoothed loss {self.loss:.3f} · lr {current_rate(trainer):.2e} · {pace:,.0f} {self.unit}/s"
        if self._bar:
            self._bar.update(self._bar.task_ids[0], completed=trainer.global_step, description=text)
        else:
            LOG.info("step %s of %s · %s · %s left", trainer.global_step, self.total, text, self._left(now, trainer))

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Clears the bar away."""
        self._close()

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        """Clears the bar away, so that the error stands alone."""
        self._close()

    def _close(self) -> None:
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _left(self, now: float, trainer: pl.Trainer) -> str:
        """The time that the remaining steps will take at the pace so far, as h:mm:ss."""
        began, first = self._began
        seconds = int((now - began) / max(trainer.global_step - first, 1) * (self.total - trainer.global_step))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
