"""State of a sweep's cells, and estimate of the time left.

Read from the run directories. Imports no torch.
"""

import json
import os
import socket
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import fmean
from typing import Any

from phmrun.errors import ExitCode
from phmrun.ledger import Run
from phmrun.ledger.directory import directory_of
from phmrun.ledger.listing import recorded_run
from phmrun.ledger.lock import LOCK, Holder, living_holder
from phmrun.ledger.status import State
from phmrun.results.entries import settings_of
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.selection import SEED

LOG = "output.log"  # in the run directory: all output of the run's process, after a line with its time
CLAIM = ".claim"  # a planner's lock on a run directory: it has started that run, or is about to


class CellState(StrEnum):
    """State of a cell."""

    DONE = "done"
    RUNNING = "running"  # a process trains it, or is about to
    INTERRUPTED = "interrupted"  # stopped before its end; it resumes from its last checkpoint
    QUEUED = "queued"  # has a run directory, but has not started
    MISSING = "missing"  # no run directory
    FAILED = "failed"
    BLOCKED = "blocked"  # its data are missing on this machine
    INVALID = "invalid"  # its configuration is invalid


LEFT = (CellState.MISSING, CellState.QUEUED, CellState.RUNNING, CellState.INTERRUPTED)  # states with work left
NOT_BEGUN = (CellState.MISSING, CellState.QUEUED)


@dataclass(frozen=True)
class CellStatus:
    """Cell with its state and run."""

    cell: Cell
    state: CellState  # its state
    run: Run | None = None  # its run; ``None`` if it has no run directory
    holder: Holder | None = None  # the live process that trains it
    claimed: bool = False  # True if a live planner started it

    @property
    def reason(self) -> str:
        """Reason why the cell is not done; empty if unknown.

        It is the cell's fault, else the run's damage, else the reason in its status.
        """
        if self.cell.fault:
            return self.cell.fault.what
        if self.run is None:
            return ""
        return self.run.damage or (self.run.status.reason if self.run.status else None) or ""

    @property
    def diverged(self) -> bool:
        """True if the cell failed because training stopped at NaN or infinity."""
        status = self.run.status if self.run else None
        return self.state is CellState.FAILED and status is not None and status.diverged

    @property
    def parameters(self) -> int | None:
        """Parameters that the run has on record, else of the configured network; ``None`` if unknown."""
        trained = self.run.about("parameters") if self.run else None
        return trained if isinstance(trained, int) else self.cell.parameters

    @property
    def is_exact(self) -> bool:
        """False if the number of parameters is that of the largest possible vocabulary."""
        return self.cell.exact or bool(self.run and self.run.about("parameters"))

    @property
    def size(self) -> str | int | None:
        """Number of parameters; "≤ N" if it is not exact, and ``None`` if unknown."""
        return self.parameters if self.is_exact or self.parameters is None else f"≤ {self.parameters:,}"


def look(cell: Cell, runs_dir: Path) -> CellStatus:
    """Return the state of one cell, read from its run directory.

    BLOCKED (data missing), FAILED (no trial has a score) or INVALID without a run id, MISSING without a run or while
    its seed still searches. A run that is not done is RUNNING if a living process holds its lock, or another planner
    than this process its claim. Without such a process, a status RUNNING counts as INTERRUPTED, and a missing or
    damaged status as QUEUED.
    """
    if cell.run_id is None:
        states = {ExitCode.DATA: CellState.BLOCKED, ExitCode.SWEEP: CellState.FAILED}
        return CellStatus(cell, states.get(cell.fault.code if cell.fault else ExitCode.USAGE, CellState.INVALID))
    if cell.searching:
        return CellStatus(cell, CellState.MISSING)
    path = directory_of(runs_dir, cell.run_id)
    run = recorded_run(path)
    if run is None:
        return CellStatus(cell, CellState.MISSING)
    if run.status and run.status.state is State.DONE:
        return CellStatus(cell, CellState.DONE, run)
    holder, claim = living_holder(path / LOCK), living_holder(path / CLAIM)
    elsewhere = claim is not None and (claim.host, claim.pid) != (socket.gethostname(), os.getpid())
    if holder or elsewhere:
        return CellStatus(cell, CellState.RUNNING, run, holder or claim, claim is not None)
    state = CellState[run.status.state.name] if run.status else CellState.QUEUED  # created, but without a status yet
    return CellStatus(cell, CellState.INTERRUPTED if state is CellState.RUNNING else state, run)


def unblocked(statuses: Sequence[CellStatus], recorded: Sequence[CellStatus]) -> list[CellStatus]:
    """Return states in which blocked cells have those on record, if there is a run.

    Cells are found by their row's number, since chosen values change its labels, and by seed. Pilots that the plan on
    record leaves out are left out.
    """

    def places(cells: Sequence[CellStatus]) -> list[tuple[int, Any]]:
        """Return the number of each cell's row, and its seed."""
        rows = list(dict.fromkeys(status.cell.row for status in cells))
        return [(rows.index(status.cell.row), status.cell.at[SEED]) for status in cells]

    before = dict(zip(places(recorded), recorded, strict=True))
    pairs = [(before.get(place), its) for place, its in zip(places(statuses), statuses, strict=True)]
    return [old if its.state is CellState.BLOCKED and old.run else its for old, its in pairs if old]


def survey(plan: Plan, runs_dir: Path) -> list[CellStatus]:
    """Return the states of all cells of a plan, in its order."""
    return [look(cell, runs_dir) for cell in plan.cells]


def distinct(statuses: Iterable[CellStatus]) -> list[CellStatus]:
    """Return the first cell of each run id, in order.

    Cells without a run id are left out.
    """
    by_run: dict[str, CellStatus] = {}
    for status in statuses:
        if status.cell.run_id is not None:
            by_run.setdefault(status.cell.run_id, status)
    return list(by_run.values())


def to_run(statuses: Iterable[CellStatus], retry_failed: bool) -> list[CellStatus]:
    """Return the cells that are neither done nor failed, each experiment once.

    With ``retry_failed``, failed cells are among them, too. Cells that cannot be run (invalid, or data missing) are
    left out.
    """
    over = {CellState.DONE} if retry_failed else {CellState.DONE, CellState.FAILED}
    return [status for status in distinct(statuses) if status.state not in over]


def runs_left(plan: Plan, statuses: Iterable[CellStatus], trials: Sequence[CellStatus]) -> list[CellStatus]:
    """Return the runs of a sweep with work left, each once: trials, then cells whose runs are no trials."""
    replicates = plan.sweep.file.replicates  # each keeps one of its trials, and so does a row's pilot
    cells = [s for s in statuses if not (s.cell.searching and (s.cell.chose_settings or replicates))]
    return [status for status in distinct([*trials, *cells]) if status.state in LEFT]


def tally(statuses: Iterable[CellStatus]) -> dict[CellState, int]:
    """Count cells by state, in the order of :class:`CellState`.

    States without cells are left out.
    """
    states = [status.state for status in statuses]
    return {state: states.count(state) for state in CellState if state in states}


def orphans(statuses: Sequence[CellStatus]) -> int:
    """Count the running cells on this machine without a live planner.

    They occupy slots that no live planner counts. Machines are told apart by host name.
    """
    here = socket.gethostname()
    unclaimed = [status.holder for status in statuses if status.state is CellState.RUNNING and not status.claimed]
    return sum(holder is not None and holder.host == here for holder in unclaimed)


class Estimate:
    """Estimate of the time left of whole runs, in seconds: training, and all that their processes do besides.

    A cell takes the mean time of cells with the same settings except the seed; else of its task's cells with the same
    number of steps; else of all cells of its task. Cells that are done count, else those that train, by their pace; the
    last eight, since others may be of another machine.
    """

    def __init__(self, statuses: Iterable[CellStatus]) -> None:
        self._measured: dict[str, list[tuple[float, float]]] = defaultdict(list)  # training, and besides
        for status in statuses:
            self.learn(status)

    def learn(self, status: CellStatus, seconds: float = 0.0) -> None:
        """Add the time of a cell if it is done; its process took at least ``seconds``."""
        if status.state is CellState.DONE and status.run and status.run.status:
            training = status.run.status.seconds
            recorded = [entry.get("wall_seconds") for entry in status.run.environment()]
            whole = max(seconds, sum(taken for taken in recorded if isinstance(taken, int | float)))
            besides = max(0.0, whole - training)
            for likeness in _likenesses(status.cell):
                self._measured[likeness].append((training, besides))

    def left(self, status: CellStatus, paced: Mapping[str, list[tuple[float, float]]] | None = None) -> float | None:
        """Return the seconds left for a cell; ``None`` if no similar cell was measured.

        The result is 0 if no work is left. A cell that has trained is estimated by its own pace to ``max_steps``.
        Others take the time of similar cells minus their own, at least 0. ``paced`` are those that are not done.
        """
        if status.state not in LEFT:
            return 0.0
        likenesses = _likenesses(status.cell)
        times_of_likeness = [times.get(likeness) for times in (self._measured, paced or {}) for likeness in likenesses]
        measured: list[tuple[float, float]] = next(filter(None, times_of_likeness), [])[-8:]
        whole, spent = _paced(status), status.run.status.seconds if status.run and status.run.status else 0.0
        if whole is None and not measured:
            return None
        training = fmean(seconds for seconds, _ in measured) if whole is None else whole
        return max(0.0, training - spent) + (fmean(besides for _, besides in measured) if measured else 0.0)

    def total(self, statuses: Iterable[CellStatus], slots: int) -> float | None:
        """Return the seconds until all are done in parallel slots; ``None`` if that of any cell is unknown."""
        statuses, paced = list(statuses), defaultdict[str, list[tuple[float, float]]](list)
        for status in statuses:
            if (whole := _paced(status)) is not None:
                for likeness in _likenesses(status.cell):
                    paced[likeness].append((whole, 0.0))
        left = [self.left(status, paced) for status in statuses]
        seconds_left = [seconds for seconds in left if seconds is not None]
        return sum(seconds_left) / max(slots, 1) if len(seconds_left) == len(left) else None


def _paced(status: CellStatus) -> float | None:
    """Return the seconds of a cell's whole training by its pace so far; ``None`` before its first step."""
    share = progress(status)
    return status.run.status.seconds / share if share and status.run and status.run.status else None


def steps_done(status: CellStatus) -> tuple[int, int] | None:
    """Return the optimizer steps done, and their maximum.

    ``None`` if ``max_steps`` is not set or the cell has no readable run.
    """
    steps = status.cell.config.training.max_steps if status.cell.config else None
    if not steps or status.run is None or not status.run.status:
        return None
    return status.run.status.step, steps


def progress(status: CellStatus) -> float | None:
    """Return the share of optimizer steps done, at most 1.

    ``None`` if it is unknown, see :func:`steps_done`.
    """
    steps = steps_done(status)
    return min(1.0, steps[0] / steps[1]) if steps else None


def _likenesses(cell: Cell) -> tuple[str, ...]:
    """Return keys of similar cells, closest first.

    They are all settings except the seed; task and steps; task. A cell without a configuration has one empty key.
    """
    if cell.config is None:
        return ("",)
    task = cell.config.task
    return json.dumps(settings_of(cell.config), sort_keys=True), f"{task} {cell.config.training.max_steps}", task
