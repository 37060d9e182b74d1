"""How long what is left will take, from what was measured. Imports no torch."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import fmean

from phmrun.config import semantic_values
from phmrun.sweeps.cell_status import LEFT, CellState, CellStatus
from phmrun.sweeps.plan import SEED, Cell


class Estimate:
    """Seconds of training that cells take, by those that are done.

    A cell takes as long as the mean of its other seeds; where none is done, as the mean of its task's cells with the
    same number of steps; else as the mean of its task's.

    Args:
        statuses: Cells, among them those that are done.
    """

    def __init__(self, statuses: Iterable[CellStatus]) -> None:
        self._measured: dict[str, list[float]] = defaultdict(list)
        for status in statuses:
            if status.state is CellState.DONE and status.run and status.run.status:
                self.learn(status.cell, status.run.status.seconds)

    def learn(self, cell: Cell, seconds: float) -> None:
        """Takes in one more measurement."""
        for key in _KEYS:
            self._measured[key(cell)].append(seconds)

    def whole(self, cell: Cell) -> float | None:
        """Seconds that a cell takes from its beginning; ``None`` where nothing was measured that it resembles."""
        for key in _KEYS:
            found = self._measured.get(key(cell))
            if found:
                return fmean(found)
        return None

    def left(self, status: CellStatus) -> float | None:
        """Seconds that a cell still takes; its own pace decides where it has begun."""
        if status.state not in LEFT:
            return 0.0
        whole = self.whole(status.cell)
        if status.run is None or status.run.status is None or not status.run.status.seconds:
            return whole
        spent, share = status.run.status.seconds, progress(status)
        if share:
            return spent * (1 / share - 1)
        return None if whole is None else max(0.0, whole - spent)

    def total(self, statuses: Iterable[CellStatus], slots: int) -> float | None:
        """Seconds until all are done, so many at a time; ``None`` where that cannot be told of every one."""
        left = [self.left(status) for status in statuses]
        known = [seconds for seconds in left if seconds is not None]
        return sum(known) / max(slots, 1) if len(known) == len(left) else None


def progress(status: CellStatus) -> float | None:
    """The share of its optimizer steps that a run has made, where their number is fixed."""
    steps = status.cell.config.training.max_steps if status.cell.config else None
    if not steps or status.run is None or status.run.status is None:
        return None
    return min(1.0, status.run.status.step / steps)


def _experiment(cell: Cell) -> str:
    """The cell without its seed."""
    if cell.config is None:
        return ""
    values = semantic_values(cell.config)
    values.pop(SEED, None)
    return json.dumps([cell.config.task, values], sort_keys=True)


def _length(cell: Cell) -> str:
    return f"{_task(cell)} {cell.config.training.max_steps if cell.config else ''}"


def _task(cell: Cell) -> str:
    return cell.config.task if cell.config else ""


_KEYS: tuple[Callable[[Cell], str], ...] = (_experiment, _length, _task)
