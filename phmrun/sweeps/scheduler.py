"""Scheduler of a sweep: submits unfinished cells to an executor, reads results from the ledger.

No state is kept outside the run directories. A planner locks a cell's run directory before it reads its state, so two
planners never start the same cell. The run holds its own lock, so it goes on if its planner is killed. Cells of other
processes are awaited, and taken over if these die.
"""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from phmrun.config import to_yaml
from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.files import disk_error, last_lines, write_text
from phmrun.ledger import Lock, Run, State
from phmrun.ledger.directory import directory_of
from phmrun.ledger.status import reason_of
from phmrun.progress import note
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import CLAIM, LOG, NOT_BEGUN, CellState, CellStatus, look, orphans
from phmrun.sweeps.executors import Ended, Executor, Job

POLL = 0.2  # seconds between two looks at the processes of this planner
LOOK = 2.0  # seconds between two looks at the runs of others


FOLDER = ".sweeps"
PROGRAM = (sys.executable, "-P", "-m", "phmrun")
"""Command of this phmrun; ``-P`` ignores a folder called ``phmrun`` in the working directory."""


class Workplace:
    """Folder of one sweep.

    All its files can be written again.

    Args:
        runs_dir: Directory of runs.
        name: Name of the sweep.
        plugins: Plug-in files that every run loads.
        program: Command that is called with the arguments of ``phmrun``.
    """

    def __init__(
        self, runs_dir: Path, name: str, plugins: Sequence[str] = (), program: Sequence[str] = PROGRAM
    ) -> None:
        self.runs_dir = runs_dir
        self.path = runs_dir / FOLDER / name
        self.plugins = plugins
        self.program = program

    def job(self, cell: Cell, threads: int = 0) -> Job:
        """Return the job of a cell.

        Its configuration is written into the sweep's folder, and its run created. An existing run is left unchanged,
        but a missing config or status is written into it. The command is ``phmrun train`` with the configuration and
        the sweep's plug-ins.

        Args:
            cell: A cell that can be run.
            threads: CPU threads if the cell's configuration sets none; 0: none are set.

        Raises:
            ValueError: The cell cannot be run.
            PhmrunError: (exit 3) The run directory cannot be created.
        """
        if cell.config is None or cell.run_id is None:
            raise ValueError(f"the cell {cell.label} cannot be run")
        config = self.path / "cells" / f"{cell.run_id}.yaml"
        text = to_yaml(cell.config, cell.origin)
        write_text(config, text)
        Run.create(self.runs_dir, cell.run_id, text)
        command = [*self.program, "train", cell.config.task, "--config", str(config), "--runs-dir", str(self.runs_dir)]
        for plugin in self.plugins:
            command += ["--plugin", plugin]
        if threads and not cell.config.hardware.threads:
            command += ["--threads", str(threads)]
        return Job(cell.run_id, tuple(command), self.log(cell.run_id))

    def log(self, run_id: str) -> Path:
        """Return the path of the file with the output of a run's process.

        It is ``output.log`` in the run's directory. It may not exist.
        """
        return directory_of(self.runs_dir, run_id) / LOG

    def claim(self, cell: Cell) -> Lock:
        """Return the planner's lock on a cell.

        It is the file ``.claim`` in the run directory, which is created if missing. The lock is not acquired yet.
        """
        path = directory_of(self.runs_dir, str(cell.run_id))
        path.mkdir(parents=True, exist_ok=True)
        return Lock(path / CLAIM, f"the run {cell.run_id}")


@dataclass(frozen=True)
class Event:
    """Change of a cell's state."""

    status: CellStatus  # the cell and its state
    seconds: float | None = None  # duration of this planner's process; ``None`` if it has none, or has just started
    code: int | None = None  # its exit code; minus the signal if one killed it
    log: list[str] = field(default_factory=list)  # last lines of the output, unless the run is done


@dataclass
class Scheduler:
    """Planner of a sweep: starts its cells and waits for them."""

    statuses: Iterable[CellStatus]  # cells to run, in order, one per run id
    workplace: Workplace  # the sweep's folder
    executor: Executor  # runs the jobs
    threads: int = 0  # CPU threads of a run if its configuration sets none
    retry_failed: bool = False  # True: run failed cells again
    watch: Callable[[Event | None], None] = lambda event: None  # called with each event, and with None at each poll
    deadline: float | None = None  # time to stop, by ``time.monotonic``; runs can be resumed

    def __post_init__(self) -> None:
        statuses = list(self.statuses)
        self._elsewhere = {str(s.cell.run_id): s for s in statuses if s.state is CellState.RUNNING}
        self._pending = deque(status.cell for status in statuses if status.state is not CellState.RUNNING)
        self._mine: dict[str, tuple[Cell, Lock, float]] = {}
        self._attempts: dict[str, int] = {}
        self._looked = 0.0

    def run(self) -> None:
        """Run until each cell is done, has failed, or was tried once.

        It ends at the deadline, too. At the end, all remaining processes are interrupted, and the cells released.
        Failed runs raise nothing.

        Raises:
            KeyboardInterrupt: The user interrupted. All runs are interrupted, too, with a note; the same call resumes
                them.
        """
        try:
            while self._step():
                self.watch(None)
                time.sleep(POLL)
        except KeyboardInterrupt:
            if self._mine:
                note("interrupting the runs; they save their state")
            raise
        finally:
            self.executor.stop()
            for ended in self.executor.poll():
                self._settle(ended, stopped=True)
            for _, claim, _ in self._mine.values():
                claim.release()

    def _step(self) -> bool:
        """Handle ended runs, and start new ones if there is room.

        Every 2 seconds, runs of others are looked at: done and failed ones are reported, unfinished ones that nobody
        runs are queued again, first. Runs on this machine whose planner is gone take up room, too.

        Returns:
            True if runs are left here or elsewhere, or pending; ``False`` at the deadline.
        """
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
        while len(jobs) < room and self._pending:
            cell = self._pending.popleft()
            try:
                job = self._claimed(cell)
            except (OSError, PhmrunError) as error:
                self._refuse(cell, error)
                continue
            jobs += [job] if job else []
        for job in jobs:
            try:
                self.executor.submit([job])
            except OSError as error:
                self._refuse(self._mine[job.run_id][0], error)
        return bool(self._mine or self._elsewhere or self._pending)

    def _claimed(self, cell: Cell) -> Job | None:
        """Lock a cell, report it as running, and return its job.

        ``None`` if it need not run (see :meth:`_wanted`) or another planner has the lock; in the latter case it is
        awaited.

        Raises:
            OSError, PhmrunError: The run directory cannot be written to.
        """
        name = str(cell.run_id)
        status = look(cell, self.workplace.runs_dir)
        if not self._wanted(status):
            return None
        claim = self.workplace.claim(cell)
        try:
            claim.acquire()
        except PhmrunError as error:
            if error.code != ExitCode.USAGE:  # no holder, but no lock either
                raise
            self._elsewhere[name] = look(cell, self.workplace.runs_dir)
            return None
        status = look(cell, self.workplace.runs_dir)  # it may have been run before it was claimed
        if not self._wanted(status):
            claim.release()
            return None
        self._attempts[name] = self._attempts.get(name, 0) + 1
        self._mine[name] = (cell, claim, time.monotonic())
        job = self.workplace.job(cell, self.threads)
        self.watch(Event(CellStatus(cell, CellState.RUNNING, status.run)))
        return job

    def _refuse(self, cell: Cell, error: OSError | PhmrunError) -> None:
        """Release a cell that cannot be started, and report it as failed."""
        _, claim, _ = self._mine.pop(str(cell.run_id), (cell, None, 0.0))
        if claim:
            claim.release()
        if isinstance(error, OSError):
            what = data_error(reason_of(error), str(error.filename))
            error = disk_error(error) or what
        status = CellStatus(replace(cell, fault=error), CellState.FAILED)
        self.watch(Event(status, 0.0, error.code, str(error).splitlines()))

    def _wanted(self, status: CellStatus) -> bool:
        """True if a cell must run now.

        Running cells are awaited. Done and failed cells, and those that this planner has tried, are reported. Other
        cells must run; with ``retry_failed``, so must a failed one, once.
        """
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
        """Handle the end of a process.

        A failure is recorded, the cell released, and its state reported. A process that this planner stopped counts as
        interrupted, not as failed; one that leaves no readable status, as failed. A cell that another process runs is
        awaited.
        """
        cell, claim, began = self._mine.pop(ended.run_id)
        try:
            if not stopped:
                self._record(ended)
        finally:
            claim.release()
        status = look(cell, self.workplace.runs_dir)
        if status.state is CellState.RUNNING:  # it was already running without a claim, so ours was refused
            self._attempts[ended.run_id] = 0
            self._elsewhere[ended.run_id] = status
            return
        code, log = ended.code, last_lines(self.workplace.log(ended.run_id))
        if status.state in NOT_BEGUN and not stopped:
            status, code = replace(status, state=CellState.FAILED), code or ExitCode.DATA
            log = log or ["its run directory was removed or replaced while it ran"]
        self.watch(Event(status, time.monotonic() - began, code, [] if status.state is CellState.DONE else log))

    def _record(self, ended: Ended) -> None:
        """Write FAILED for a run whose process failed without doing so.

        The reason is the exit code with the last line of its log. Nothing is written for other exit codes than 1–4, for
        a run that is neither queued nor interrupted, or if another process holds it.
        """
        run = Run(directory_of(self.workplace.runs_dir, ended.run_id))
        if ended.code not in (ExitCode.BUG, ExitCode.USAGE, ExitCode.DATA, ExitCode.TRAINING):
            return
        try:
            with run.lock():
                if run.status.state in (State.QUEUED, State.INTERRUPTED):
                    lines = last_lines(self.workplace.log(ended.run_id), 1)
                    message = lines[0].removeprefix("phmrun: error: ") if lines else "no output"
                    run.set_state(State.FAILED, f"exit code {ended.code}: {message}")
        except (OSError, PhmrunError):
            return  # another process holds the run and writes its end, or its directory is gone
