"""Runs what is not done: hands cells to an executor, one after the other, and reads in the ledger what came of them.

A sweep is cancelled by ending its planners, then the runs that are left.

Nothing is remembered beside the run directories. A planner claims a cell by a lock in its run directory before it
looks at it, so two planners never start the same cell; the run itself holds the run's own lock, so a run whose planner
was killed is left to finish. What other processes work at is waited for, and taken over if they die.
"""

import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger import Holder, Lock, Run, State
from phmrun.ledger.run import directory_of
from phmrun.progress import note
from phmrun.sweeps.cell_status import CellState, CellStatus, look, orphans
from phmrun.sweeps.executors import GRACE, Ended, Executor, Job
from phmrun.sweeps.plan import Cell
from phmrun.sweeps.workplace import Workplace, last_lines

POLL = 0.2  # seconds between two looks at the processes of this planner
LOOK = 2.0  # seconds between two looks at the runs of others
PATIENCE = 60.0  # seconds that a planner is given to interrupt its runs and leave, when a sweep is cancelled


@dataclass(frozen=True)
class Event:
    """Something that has happened to a cell."""

    status: CellStatus  # the cell, and what has become of it
    # how long this planner's process for it took; ``None`` where there is none, or it has just begun
    seconds: float | None = None
    code: int | None = None  # its exit code, negative for the signal that killed it
    log: list[str] = field(default_factory=list)  # the last lines of a run that did not end well


@dataclass
class Scheduler:
    """One planner at work."""

    # the cells to run, in this order, as they stand; of those that are one experiment, one
    statuses: Iterable[CellStatus]
    workplace: Workplace  # the sweep's folder
    executor: Executor  # what carries them out
    threads: int = 0  # CPU threads of a run where its configuration leaves them open
    retry_failed: bool = False  # also run what has failed before
    limit: int | None = None  # start at most so many; ``None``: all
    # told what happens, and now and then that time has passed
    watch: Callable[[Event | None], None] = lambda event: None
    # when to stop, by ``time.monotonic``; what is at work then is interrupted, and can be continued
    deadline: float | None = None

    def __post_init__(self) -> None:
        statuses = list(self.statuses)
        self._elsewhere = {str(s.cell.run_id): s for s in statuses if s.state is CellState.RUNNING}
        self._pending = deque(status.cell for status in statuses if status.state is not CellState.RUNNING)
        self._mine: dict[str, tuple[Cell, Lock, float]] = {}
        self._started = 0
        self._attempts: dict[str, int] = {}
        self._looked = 0.0

    def run(self) -> None:
        """Runs until every cell is done, has failed, or was started and stopped.

        Raises:
            KeyboardInterrupt: The user interrupted, and so did this its runs; the same call continues them.
        """
        try:
            while self._step():
                self.watch(None)
                time.sleep(POLL)
        except KeyboardInterrupt:
            if self._mine:
                note("stopping the runs, which write what they have")
            raise
        finally:
            self.executor.stop()
            for ended in self.executor.poll():
                self._settle(ended, stopped=True)
            for _, claim, _ in self._mine.values():
                claim.release()

    def _step(self) -> bool:
        """Takes in what has ended here and elsewhere, starts what there is room for; whether anything is left."""
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return False
        for ended in self.executor.poll():
            self._settle(ended)
        if time.monotonic() - self._looked >= LOOK:
            self._looked = time.monotonic()
            for name, before in list(self._elsewhere.items()):
                status = look(before.cell, self.workplace.runs_dir)
                if status.state is CellState.RUNNING:
                    self._elsewhere[name] = status
                    continue
                del self._elsewhere[name]
                if status.state in (CellState.DONE, CellState.FAILED):
                    self.watch(Event(status))
                else:  # left unfinished
                    self._pending.appendleft(before.cell)
        jobs: list[Job] = []
        room = self.executor.room() - orphans(list(self._elsewhere.values()))
        while len(jobs) < room and self._pending and not self._exhausted():
            job = self._claimed(self._pending.popleft())
            jobs += [job] if job else []
        if jobs:
            self.executor.submit(jobs)
        return bool(self._mine or self._elsewhere or (self._pending and not self._exhausted()))

    def _exhausted(self) -> bool:
        return self.limit is not None and self._started >= self.limit

    def _claimed(self, cell: Cell) -> Job | None:
        """The job of a cell, if it needs to be run and nobody else does."""
        name = str(cell.run_id)
        status = look(cell, self.workplace.runs_dir)
        if not self._wanted(status):
            return None
        claim = self.workplace.claim(cell)
        try:
            claim.acquire()
        except PhmrunError:
            self._elsewhere[name] = look(cell, self.workplace.runs_dir)
            return None
        status = look(cell, self.workplace.runs_dir)  # it may have been run before it was claimed
        if not self._wanted(status):
            claim.release()
            return None
        self._started += 1
        self._attempts[name] = self._attempts.get(name, 0) + 1
        self._mine[name] = (cell, claim, time.monotonic())
        job = self.workplace.job(cell, self.threads)
        self.watch(Event(CellStatus(cell, CellState.RUNNING, status.run)))
        return job

    def _wanted(self, status: CellStatus) -> bool:
        """Whether a cell is to be run now; what others do is kept in mind, what is over is told."""
        name = str(status.cell.run_id)
        tried = self._attempts.get(name, 0) > 0
        if status.state is CellState.RUNNING:
            self._elsewhere[name] = status
            return False
        if status.state is CellState.FAILED and self.retry_failed and not tried:
            return True
        if status.state in (CellState.DONE, CellState.FAILED) or tried:
            self.watch(Event(status))
            return False
        return True

    def _settle(self, ended: Ended, *, stopped: bool = False) -> None:
        """Takes in the end of a process of this planner; one that was stopped has not failed, however it left."""
        cell, claim, began = self._mine.pop(ended.run_id)
        try:
            if not stopped:
                self._record(ended)
        finally:
            claim.release()
        status = look(cell, self.workplace.runs_dir)
        if status.state is CellState.RUNNING:  # it was running already, without a claim, and ours was turned away
            self._attempts[ended.run_id] = 0
            self._elsewhere[ended.run_id] = status
            return
        log = [] if status.state is CellState.DONE else last_lines(self.workplace.log(ended.run_id))
        self.watch(Event(status, time.monotonic() - began, ended.code, log))

    def _record(self, ended: Ended) -> None:
        """Writes into the status what a process that failed before its training began could not."""
        run = Run(directory_of(self.workplace.runs_dir, ended.run_id))
        if ended.code not in (ExitCode.BUG, ExitCode.USAGE, ExitCode.DATA, ExitCode.TRAINING):
            return
        try:
            with run.lock():
                if run.status.state in (State.QUEUED, State.INTERRUPTED):
                    lines = last_lines(self.workplace.log(ended.run_id), 1)
                    said = lines[0].removeprefix("phmrun: error: ") if lines else "without a word"
                    run.set_state(State.FAILED, f"exit code {ended.code}: {said}")
        except PhmrunError:
            return  # another process holds the run, and will write how it ends


@dataclass
class Cancelled:
    """What came of it."""

    planners: int = 0  # planners that were ended
    runs: list[str] = field(default_factory=list)  # runs that were ended, planners' included
    left: dict[str, str] = field(default_factory=dict)  # runs that still go on, with the machine that they are on


def cancel(workplace: Workplace, statuses: Sequence[CellStatus]) -> Cancelled:
    """Interrupts the planners of a sweep on this machine, then its runs; all of them can be continued."""
    before = [status for status in statuses if status.state is CellState.RUNNING]
    # Planners first: they interrupt their own runs, and would start the next ones in the place of any that ended.
    planners = [holder for holder in workplace.planners() if _is_here(holder)]
    for which, seconds in ((signal.SIGINT, PATIENCE), (signal.SIGTERM, 5.0)):
        _end([holder for holder in planners if _lives(holder)], which, seconds, group=False)
    at_work = [look(status.cell, workplace.runs_dir).holder for status in before]
    runs = [holder for holder in at_work if holder and _is_here(holder)]
    for which, seconds in GRACE:
        _end([holder for holder in runs if _lives(holder)], which, seconds, group=True)
    result = Cancelled(planners=sum(not _lives(holder) for holder in planners))
    for status in before:
        after = look(status.cell, workplace.runs_dir)
        name = str(status.cell.run_id)
        if after.state is CellState.RUNNING:
            result.left[name] = after.holder.host if after.holder else "an unknown machine"
        else:
            result.runs.append(name)
    return result


def _end(holders: Sequence[Holder], which: signal.Signals, seconds: float, *, group: bool) -> None:
    """Signals processes, or the groups that they lead, and waits until they are gone, or for so long."""
    for holder in holders:
        # it may have ended, or not be ours to end; the caller looks again
        with suppress(ProcessLookupError, PermissionError):
            if group and os.getpgid(holder.pid) == holder.pid:
                os.killpg(holder.pid, which)
            else:
                os.kill(holder.pid, which)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(_lives(holder) for holder in holders):
        time.sleep(0.05)


def _is_here(holder: Holder) -> bool:
    return (holder.host, holder.space) == (socket.gethostname(), Holder.this_process().space)


def _lives(holder: Holder) -> bool:
    return holder.lives(0.0)
