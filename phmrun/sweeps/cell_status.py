"""How far the cells of a sweep are, read from their run directories, and how long what is left will take.

Imports no torch.
"""

import json
import os
import socket
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import fmean

from phmrun.config import semantic_values
from phmrun.ledger.listing import RunSummary, summarise
from phmrun.ledger.lock import LOCK, Holder, living_holder
from phmrun.ledger.run import State, directory_of
from phmrun.sweeps.plan import SEED, Cell, Plan

DIVERGED = " at optimizer step "  # in the reason of a run that `phmrun.engine.checkpoints.diverged` ended
CLAIM = ".claim"  # a planner's lock on a run directory: it has started that run, or is about to


class CellState(StrEnum):
    """What has become of a cell."""

    DONE = "done"
    RUNNING = "running"  # a process works at it, or is about to
    INTERRUPTED = "interrupted"  # it has begun, and goes on where it stopped
    QUEUED = "queued"  # it has a run directory, and has not begun
    MISSING = "missing"  # it has no run directory
    FAILED = "failed"
    BLOCKED = "blocked"  # its data are not on this machine
    INVALID = "invalid"  # its settings do not go together


LEFT = (CellState.MISSING, CellState.QUEUED, CellState.RUNNING, CellState.INTERRUPTED)  # where work is still to be done
NOT_BEGUN = (CellState.MISSING, CellState.QUEUED)


@dataclass(frozen=True)
class CellStatus:
    """A cell and what its run directory says."""

    cell: Cell
    state: CellState  # what has become of it
    run: RunSummary | None = None  # its run; ``None`` before there is one
    holder: Holder | None = None  # the living process that works at it
    claimed: bool = False  # whether a living planner started it

    @property
    def reason(self) -> str:
        """Why it is not done, as far as that is known."""
        if self.cell.fault:
            return self.cell.fault.what
        if self.run is None:
            return ""
        return self.run.damage or (self.run.status.reason if self.run.status else None) or ""

    @property
    def diverged(self) -> bool:
        """True if its training ended at a loss or weight that is no number."""
        return self.state is CellState.FAILED and DIVERGED in self.reason

    @property
    def parameters(self) -> int | None:
        """Of the trained network, or else of the one that is asked for."""
        return self.cell.parameters if self._trained is None else self._trained

    @property
    def size(self) -> str | int | None:
        """The parameters, marked ≤ where they are for the largest vocabulary that may be learnt."""
        found = self.parameters
        exact = self.cell.exact or self._trained is not None
        return found if exact or found is None else f"≤ {found:,}"

    @property
    def _trained(self) -> int | None:
        trained = self.run.about("parameters") if self.run else None
        return trained if isinstance(trained, int) else None


def look(cell: Cell, runs_dir: Path) -> CellStatus:
    """What has become of one cell."""
    if cell.run_id is None:
        return CellStatus(cell, CellState.BLOCKED if cell.blocked else CellState.INVALID)
    path = directory_of(runs_dir, cell.run_id)
    run = summarise(path)
    if run is None:
        return CellStatus(cell, CellState.MISSING)
    if run.status and run.status.state is State.DONE:
        return CellStatus(cell, CellState.DONE, run)
    holder, claim = living_holder(path / LOCK), living_holder(path / CLAIM)
    elsewhere = claim is not None and (claim.host, claim.pid) != (socket.gethostname(), os.getpid())
    if holder or elsewhere:
        return CellStatus(cell, CellState.RUNNING, run, holder or claim, claim is not None)
    state = CellState[run.status.state.name] if run.status else CellState.QUEUED  # made, but not yet written to
    return CellStatus(cell, CellState.INTERRUPTED if state is CellState.RUNNING else state, run)


def survey(plan: Plan, runs_dir: Path) -> list[CellStatus]:
    """What has become of every cell, in their order."""
    return [look(cell, runs_dir) for cell in plan.cells]


def distinct(statuses: Iterable[CellStatus]) -> list[CellStatus]:
    """The cells that can be run; of those that are one experiment, the first."""
    found: dict[str, CellStatus] = {}
    for status in statuses:
        if status.cell.run_id is not None:
            found.setdefault(status.cell.run_id, status)
    return list(found.values())


def tally(statuses: Iterable[CellStatus]) -> dict[CellState, int]:
    """How many cells stand where; what no cell is, is left out."""
    found = [status.state for status in statuses]
    return {state: found.count(state) for state in CellState if state in found}


def orphans(statuses: Sequence[CellStatus]) -> int:
    """Runs on this machine whose planner is gone: they take up room that no living planner counts."""
    here = socket.gethostname()
    unclaimed = [status.holder for status in statuses if status.state is CellState.RUNNING and not status.claimed]
    return sum(holder is not None and holder.host == here for holder in unclaimed)


class Estimate:
    """Seconds of training that cells take, by those that are done.

    A cell takes as long as the mean of its other seeds; where none is done, as the mean of its task's cells with the
    same number of steps; else as the mean of its task's.
    """

    def __init__(self, statuses: Iterable[CellStatus]) -> None:
        self._measured: dict[str, list[float]] = defaultdict(list)
        for status in statuses:
            if status.state is CellState.DONE and status.run and status.run.status:
                self.learn(status.cell, status.run.status.seconds)

    def learn(self, cell: Cell, seconds: float) -> None:
        """Takes in one more measurement."""
        for likeness in _likenesses(cell):
            self._measured[likeness].append(seconds)

    def whole(self, cell: Cell) -> float | None:
        """Seconds that a cell takes from its beginning; ``None`` where nothing was measured that it resembles."""
        found = (self._measured.get(likeness) for likeness in _likenesses(cell))
        return next((fmean(seconds) for seconds in found if seconds), None)

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


def _likenesses(cell: Cell) -> tuple[str, ...]:
    """What it shares with cells that take as long: all but the seed; the task and the steps; the task."""
    if cell.config is None:
        return ("",)
    task, values = cell.config.task, semantic_values(cell.config)
    values.pop(SEED, None)
    return json.dumps([task, values], sort_keys=True), f"{task} {cell.config.training.max_steps}", task
