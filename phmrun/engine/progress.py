"""Progress of training: a bar or log lines, and history rows of the training loss.

The loss is summed in double precision. A loss that is not finite stops training.
"""

import logging
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor

from phmrun.engine.checkpoints import diverged
from phmrun.engine.lightning import Callback, pl, window_completed
from phmrun.engine.processes import all_gather, rank, world

LOG = logging.getLogger("phmrun.engine")
MEMORY = 0.98
"""Weight of the previous value in the smoothed loss, per optimizer step."""
PATIENCE_ON_GPU = 1000
"""Maximum batches whose losses stay on a GPU; reading them waits for it, so they are read with the history's rows."""
Record = Callable[[dict[str, Any]], None]
"""Function that is called with a row of the history."""


class TrainingProgress(Callback):
    """Display of steps, loss, learning rate, units per second and time left.

    The loss is in nats per unit, smoothed over about 50 steps.

    Args:
        every: Seconds between lines if stderr is not a terminal.
        unit: Name of the units in the plural: "tokens", "items".
        total: Maximum optimizer steps.
        meter: Its clock measures the speed.
    """

    def __init__(self, every: float, unit: str, total: int, meter: "Meter") -> None:
        self.meter = meter
        self.every = every
        self.unit = unit
        self.total = total
        self.loss: float | None = None
        self._units = 0
        self._last = 0.0
        self._began = (0.0, 0)
        self._bar: Progress | None = None

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Start the clock, and show the bar on a terminal.

        Only the first process shows it, and only if stderr is a terminal.
        """
        self._last = self.meter.clock()
        self._began = (time.monotonic(), trainer.global_step)
        if trainer.is_global_zero and sys.stderr.isatty():
            loss, left = TextColumn("{task.description}"), TimeRemainingColumn()
            console = Console(stderr=True)
            self._bar = Progress(BarColumn(), MofNCompleteColumn(), loss, left, console=console, transient=True)
            self._bar.add_task("", total=self.total, completed=trainer.global_step)
            self._bar.start()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        """Update the bar twice a second, or log a line every ``every`` seconds.

        Only after completed optimizer steps and in the first process; the last step is always shown. The loss is
        smoothed by 0.98 per step, on a GPU per shown step. The speed is that since the last display, without
        validations: this process's units times the number of processes.
        """
        self._units += outputs["units"] * trainer.world_size
        now = self.meter.clock()
        ended = trainer.global_step == self.total
        due = ended or now - self._last >= (0.5 if self._bar else self.every)
        if not window_completed(trainer) or not trainer.is_global_zero:
            return
        # On a GPU, reading the loss waits for all queued work, so it is read only when shown.
        if reads_are_free(module) or due:
            value = float(outputs["nll"]) / outputs["units"]
            self.loss = value if self.loss is None else MEMORY * self.loss + (1 - MEMORY) * value
        if not due:
            return
        pace = self._units / max(now - self._last, 1e-9)
        self._last, self._units = now, 0
        text = f"smoothed loss {self.loss:.3f} · lr {current_rate(trainer):.2e} · {pace:,.0f} {self.unit}/s"
        if self._bar:
            # The rest is in the history: one line of 80 columns must hold a bar that is worth looking at.
            loss = f"loss {self.loss:.3f}"
            self._bar.update(self._bar.task_ids[0], completed=trainer.global_step, description=loss)
        else:
            LOG.info("step %s of %s · %s · %s left", trainer.global_step, self.total, text, self._left(trainer))

    def on_train_end(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Remove the bar if there is one."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def on_exception(self, trainer: pl.Trainer, module: pl.LightningModule, exception: BaseException) -> None:
        """Remove the bar before the error is printed."""
        self.on_train_end(trainer, module)

    def _left(self, trainer: pl.Trainer) -> str:
        """Return the remaining time as h:mm:ss, at the mean speed since this process began to train."""
        began, first = self._began
        seconds = int(
            (time.monotonic() - began) / max(trainer.global_step - first, 1) * (self.total - trainer.global_step)
        )
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def reads_are_free(module: pl.LightningModule) -> bool:
    """Return True if the module is on a CPU.

    A read from a GPU waits for all queued work.
    """
    return module.device.type == "cpu"


class Meter(Callback):
    """Sum of the training loss, with a history row every ``every`` optimizer steps.

    Args:
        record: Called with each row.
        every: Optimizer steps between rows.
    """

    def __init__(self, record: Record, every: int) -> None:
        self.record = record
        self.every = every
        self.nll = 0.0
        self.units = 0
        self.seconds = 0.0
        self.validating = 0.0  # seconds of validations in this process
        self.pending: list[tuple[int, Tensor, int]] = []
        self._since = time.monotonic()
        self._marked = (0.0, 0)

    def state_dict(self) -> dict[str, Any]:
        """Return the sums since the last row, "nll" and "units", and "seconds" of training.

        Sums are lists by rank. Pending losses are added first.

        Raises:
            PhmrunError: (exit 4) A loss is not finite.
        """
        self.settle()
        nll, units = zip(*all_gather((self.nll, self.units)), strict=True)
        return {"nll": list(nll), "units": list(units), "seconds": self.elapsed()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore this process's sums.

        If the number of processes has changed, the first one gets all sums, the others 0. Each gets the seconds.
        """
        nll, units = state_dict["nll"], state_dict["units"]
        mine = slice(rank(), rank() + 1) if len(nll) == world() else slice(None if rank() == 0 else len(nll), None)
        self.nll, self.units, self.seconds = sum(nll[mine]), sum(units[mine]), state_dict["seconds"]

    def on_train_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        """Start the clock."""
        self._since = time.monotonic()
        self._marked = (self.clock(), 0)

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, outputs: Any, *_: Any) -> None:
        """Add the loss of a batch, and record a row if one is due.

        Rows are due every ``every`` steps and at the last step. On a GPU, losses are kept and read with the rows, or
        when 1,000 batches are kept.

        Raises:
            PhmrunError: (exit 4) A loss is not finite.
        """
        completed = window_completed(trainer)
        step = trainer.global_step if completed else trainer.global_step + 1
        self.pending.append((step, outputs["nll"], outputs["units"]))
        self._marked = (self._marked[0], self._marked[1] + outputs["units"])
        if not completed:
            return
        due = trainer.global_step % self.every == 0 or trainer.global_step == trainer.max_steps
        if due or reads_are_free(module) or len(self.pending) >= PATIENCE_ON_GPU:
            self.settle()
        if due:
            self._write(trainer)

    def settle(self) -> None:
        """Read the pending losses, and add them and their units to the sums.

        Raises:
            PhmrunError: (exit 4) A loss is not finite; names the optimizer step.
        """
        if not self.pending:
            return
        values = torch.stack([loss for _, loss, _ in self.pending]).tolist()
        for (step, _, units), value in zip(self.pending, values, strict=True):
            if not math.isfinite(value):
                raise diverged(f"the training loss is {value}", step)
            self.nll += value
            self.units += units
        self.pending.clear()

    def elapsed(self) -> float:
        """Return the seconds of training, summed over all processes that continued it in turn."""
        return self.seconds + time.monotonic() - self._since

    def clock(self) -> float:
        """Return the seconds of a clock that stands still during validations."""
        return time.monotonic() - self.validating

    def _write(self, trainer: pl.Trainer) -> None:
        """Record a row with the mean loss since the last row; reset the sums.

        The mean is per unit over all processes, in nats. Keys: "step", "time" (seconds, 3 decimals), "train/loss",
        "train/lr" and "train/units_per_second". The last (1 decimal) is estimated as this process's pace without
        validations times the number of processes.
        """
        totals = torch.tensor([self.nll, float(self.units)], dtype=torch.float64, device=trainer.strategy.root_device)
        totals = trainer.strategy.reduce(totals, reduce_op="sum")
        moment, clock = self.elapsed(), self.clock()
        pace = self._marked[1] * trainer.world_size / max(clock - self._marked[0], 1e-9)
        self._marked = (clock, 0)
        self.nll, self.units = 0.0, 0
        self.record(
            {
                "step": trainer.global_step,
                "time": round(moment, 3),
                "train/loss": float(totals[0] / totals[1]),
                "train/lr": current_rate(trainer),
                "train/units_per_second": round(pace, 1),
            }
        )


def current_rate(trainer: pl.Trainer) -> float:
    """Return the schedule's learning rate at the last completed optimizer step.

    Before the first step, it is that of step 1.
    """
    module = trainer.lightning_module.objective
    return float(module.schedule(max(trainer.global_step, 1)))  # type: ignore[operator, union-attr]
