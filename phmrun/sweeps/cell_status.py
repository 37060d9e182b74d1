"""State of a sweep's cells, and estimate of the time left.

Read from the run directories. Imports no torch.
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
from phmrun.errors import ExitCode
from phmrun.ledger import Run
from phmrun.ledger.directory import directory_of
from phmrun.ledger.listing import recorded_run
from phmrun.ledger.lock import LOCK, Holder, living_holder
from phmrun.ledger.status import State
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


def seconds_left(left: Iterable[CellStatus], known: Iterable[CellStatus], slots: int) -> float | None:
    """Return the estimated seconds until runs are done in parallel slots; ``None`` if that of any is unknown.

    A run takes the mean training time of ``known`` cells with the same settings except the seed, else of all of its
    task, minus its own so far. Cells that train count by their pace.
    """
    times: dict[str, list[float]] = defaultdict(list)
    for status in known:
        if (whole := _whole_seconds(status)) is not None:
            for likeness in _likenesses(status.cell):
                times[likeness].append(whole)
    seconds = 0.0
    for status in left:
        whole = next((fmean(times[likeness]) for likeness in _likenesses(status.cell) if likeness in times), None)
        if whole is None:
            return None
        seconds += max(0.0, whole - (status.run.status.seconds if status.run and status.run.status else 0.0))
    return seconds / max(slots, 1)


def _whole_seconds(status: CellStatus) -> float | None:
    """Return the seconds of a run's whole training, by its pace so far if it is not done."""
    if status.run is None or not status.run.status:
        return None
    share = 1.0 if status.state is CellState.DONE else progress(status)
    return status.run.status.seconds / share if share else None


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
    """Return keys of similar cells: all settings except the seed, then the task; none without a configuration."""
    if cell.config is None:
        return ()
    values = {key: value for key, value in semantic_values(cell.config).items() if key != SEED}
    return json.dumps([cell.config.task, values], sort_keys=True), cell.config.task
