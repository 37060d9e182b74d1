"""Execution of a sweep: the trials of tuning, then the cells, with live progress.

Imports torch for the number of GPUs, or of CPU threads.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phmrun.cores import usable_cores
from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.progress import note
from phmrun.sweeps.cell_status import CellState, CellStatus, look, runs_left, survey, to_run
from phmrun.sweeps.executors import Executor
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.planning import chosen, maker
from phmrun.sweeps.scheduler import Event, Scheduler, Workplace
from phmrun.sweeps.tuning import OVER, settled, with_choices
from phmrun.sweeps.view import Tracker, faults, shown


def runnable(plan: Plan, runs_dir: Path) -> list[CellStatus]:
    """Return the states of a plan's cells.

    Raises:
        PhmrunError: No cell can run; it is the fault of the first.
    """
    statuses = survey(plan, runs_dir)
    reasons = [status.cell.fault for status in statuses if status.cell.fault is not None]
    if len(reasons) == len(statuses):
        raise reasons[0]
    return statuses


def ready(plan: Plan, runs_dir: Path) -> tuple[Plan, list[CellStatus]]:
    """Return the plan with the values chosen so far, and the states of what can run now.

    These are the trials known so far, and the cells that wait for none.

    Raises:
        PhmrunError: As :func:`runnable`.
    """
    plan = chosen(plan, runs_dir)
    cells = [status for status in runnable(plan, runs_dir) if not status.cell.searching]
    return plan, [*(look(cell, runs_dir) for cell in plan.trials), *cells]


def devices_of(plan: Plan) -> list[str]:
    """Return the numbers of the usable GPUs, as texts.

    They are those of ``CUDA_VISIBLE_DEVICES`` if it is set, at most as many as torch finds; else they count from 0.
    Empty without a GPU, or if any cell is for the CPU.
    """
    if any(cell.config and cell.config.hardware.accelerator == "cpu" for cell in plan.cells):
        return []
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if visible else [str(number) for number in range(count)]


@dataclass
class Execution:
    """Execution of a sweep's runs.

    Attributes:
        place: Folder of the sweep.
        executor: Executor of the runs.
        threads: CPU threads per run; 0: those of :meth:`_share`.
        deadline: Time limit on the clock of ``time.monotonic``; None: no limit.
        tell: Prints a line on standard error, also with ``--quiet``.
    """

    place: Workplace
    executor: Executor
    threads: int
    deadline: float | None
    tell: Callable[[str], None]

    @property
    def is_late(self) -> bool:
        """True if the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def tuned(self, plan: Plan, *, retry_failed: bool) -> Plan:
        """Run the remaining tuning trials.

        Return the plan with the chosen values, which are printed. The plan itself if it tunes nothing. At the deadline,
        values are those chosen so far. A failed trial is not chosen; with ``retry_failed`` it is run again, once. Cells
        of a row without a chosen value have a fault.

        Raises:
            PhmrunError: (exit 3) The data of a trial are missing on this machine; (exit 5) a trial was interrupted, or
                could not start.
            Interrupted: As :meth:`carry_out`.
        """
        if not plan.sweep.file.tune:
            return plan
        runs_dir, make = self.place.runs_dir, maker(plan)
        while True:
            rows = settled(plan, runs_dir, make)  # in each round, since the next trials depend on the best so far
            statuses = [status for row in rows for status in row.all_trials]
            left = to_run(statuses, retry_failed)
            if missing := next((s.cell.fault for s in statuses if s.state is CellState.BLOCKED), None):
                raise missing
            with_trials = with_choices(plan, rows, make)
            if not left:
                break
            ids = {status.cell.run_id for status in statuses}
            cells = [status for status in survey(with_trials, runs_dir) if status.cell.run_id not in ids]
            keys = ", ".join(dict.fromkeys(key for row in rows for key in row.space))
            note(f"{len(left)} of {len(statuses)} trials of {keys} are left, {len(rows[0].all_trials)} for each row")
            failures = self.carry_out(statuses, retry_failed=retry_failed, later=runs_left(with_trials, cells, ()))
            retry_failed = False
            if self.is_late:
                break
            _require_ended(failures, runs_dir)
        for row in rows:
            if row.values is not None:  # else its cells have the fault
                edge = f"; at the edge of the space: {', '.join(row.at_edge)}" if row.at_edge else ""
                values = ", ".join(f"{key}={value}" for key, value in row.values.items())
                self.tell(f"{row.pilot.label}: {values} of {len(row.trials)} trials{edge}")
        return with_trials

    def carry_out(
        self, statuses: Sequence[CellStatus], *, retry_failed: bool, later: Sequence[CellStatus] | None = None
    ) -> dict[str, Event]:
        """Run the remaining cells with live progress; name those that cannot run.

        Args:
            statuses: States of all cells.
            retry_failed: Run failed cells again.
            later: Further runs of the sweep, for the time left, if the cells are trials of tuning.

        Returns:
            Events of the runs that failed, or were interrupted before the deadline, by run id.

        Raises:
            Interrupted: A signal ended the sweep; its ``outcome`` is the progress so far.
        """
        self.threads = self.threads or self._share(statuses)
        tracker = Tracker(statuses, self.place.runs_dir, self.executor.room(), later)
        spent = self.is_late and later is None  # by the trials, after which the note was printed
        for line in faults(statuses):
            self.tell(line)
        failures: dict[str, Event] = {}
        with shown(tracker) as view:

            def watch(event: Event | None) -> None:
                """Note a failed run, and show the event; interruptions after the deadline are no failures."""
                failed = event is not None and event.code and event.status.state is not CellState.DONE
                if event is not None and failed and (event.status.state is CellState.FAILED or not self.is_late):
                    failures[str(event.status.cell.run_id)] = event
                view(event)

            left = to_run(statuses, retry_failed)
            try:
                Scheduler(left, self.place, self.executor, self.threads, retry_failed, watch, self.deadline).run()
            except KeyboardInterrupt as error:
                which = error.which if isinstance(error, Interrupted) else signal.SIGINT
                raise Interrupted(which, tracker.summary()) from error
        if self.is_late and not spent:
            note("time limit reached; the same command continues")
        return failures

    def _share(self, statuses: Sequence[CellStatus]) -> int:
        """Return one number of CPU threads for all runs of a sweep.

        Several runs at a time divide the cores; each gets at least 1. One at a time has torch's default (0) if
        ``OMP_NUM_THREADS`` is set. Otherwise it has the number on record of the first cell with a run (0 if there is
        none). Without a run, it is the number of free cores, which is also set in this process.
        """
        slots = self.executor.room()
        if slots > 1:
            return max(1, usable_cores() // slots)
        if "OMP_NUM_THREADS" in os.environ:
            return 0
        for status in statuses:
            if status.run and (segments := status.run.environment()):
                return int(segments[0].get("threads") or 0)
        from phmrun.engine.bookkeeping import set_threads

        return set_threads()


def _require_ended(failures: dict[str, Event], runs_dir: Path) -> None:
    """Check that trials that did not succeed have failed by themselves.

    Raises:
        PhmrunError: (exit 5) A trial was interrupted, or could not start.
    """
    for event in failures.values():
        cell = event.status.cell
        if cell.fault is not None:
            what = f"the trial {cell.label} could not start: {cell.fault.what}"
            raise PhmrunError(what, where=cell.fault.where, hint=cell.fault.hint, code=ExitCode.SWEEP)
        if look(cell, runs_dir).state not in OVER:
            raise PhmrunError("a trial was interrupted", code=ExitCode.SWEEP, hint="The same command continues it.")
