"""Execution of a sweep: workers, tuning trials, clusters.

Imported when the verb runs.
"""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from phmrun.cli import console
from phmrun.cli.sweep_output import tell_faults
from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.directory import directory_of
from phmrun.ledger.environment import usable_cores
from phmrun.ledger.segment import read_segments
from phmrun.progress import note
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState, CellStatus, distinct, look, runs_left, survey
from phmrun.sweeps.executors import Executor
from phmrun.sweeps.executors.local import LocalExecutor
from phmrun.sweeps.executors.slurm import Slurm
from phmrun.sweeps.planning import maker
from phmrun.sweeps.scheduler import Event, Scheduler
from phmrun.sweeps.tuning import OVER, settled, with_choices
from phmrun.sweeps.view import Tracker, shown
from phmrun.sweeps.workplace import Workplace


def workplace(made: Plan, runs_dir: Path) -> Workplace:
    """Return the folder of a plan's sweep."""
    return Workplace(runs_dir, made.sweep.name, tuple(made.sweep.file.plugins))


def require_cells(statuses: Sequence[CellStatus]) -> None:
    """Check that at least one cell can run.

    Raises:
        PhmrunError: None can; the error is the first cell's.
    """
    faults = [status.cell.fault for status in statuses if status.cell.fault is not None]
    if len(faults) == len(statuses):
        raise faults[0]


def to_run(statuses: Sequence[CellStatus], retry_failed: bool) -> list[CellStatus]:
    """Return the cells that are neither done nor failed, each experiment once.

    With ``retry_failed``, failed cells are among them, too. Cells that cannot be run (invalid, or data missing) are
    left out.
    """
    over = {CellState.DONE} if retry_failed else {CellState.DONE, CellState.FAILED}
    return [status for status in distinct(statuses) if status.state not in over]


def is_over(deadline: float | None) -> bool:
    """Return True if the deadline has passed, and log a message then.

    Return False without a deadline, which is in seconds of ``time.monotonic``.
    """
    if deadline is None or time.monotonic() < deadline:
        return False
    note("time limit reached; the same command continues")
    return True


class Workers:
    """Workers that run the cells of a sweep.

    Args:
        place: Folder of the sweep.
        executor: Executor of the runs.
        threads: CPU threads per run; 0: torch's default.
    """

    def __init__(self, place: Workplace, executor: Executor, threads: int) -> None:
        self.place, self.executor, self.threads = place, executor, threads
        self.slots = executor.room()

    def carry_out(
        self,
        statuses: Sequence[CellStatus],
        *,
        retry_failed: bool = False,
        limit: int | None = None,
        deadline: float | None = None,
        later: Sequence[CellStatus] = (),
        trials: bool = False,
    ) -> dict[str, list[str]]:
        """Run the remaining cells with live progress; name those that cannot run.

        Args:
            statuses: States of all cells.
            retry_failed: Run failed cells again.
            limit: Maximum number of runs to start; None: no limit.
            deadline: Time limit on the clock of ``time.monotonic``; None: no limit.
            later: Further runs of the sweep that follow, for the time left.
            trials: True if the cells are trials of tuning.

        Returns:
            Last log lines, by run id, of the runs that failed, or were interrupted before the deadline.

        Raises:
            Interrupted: A signal ended the sweep; its ``outcome`` is the progress so far.
        """
        tracker = Tracker(statuses, self.place.runs_dir, self.slots, later=later, trials=trials)
        tell_faults(statuses)
        bad: dict[str, list[str]] = {}
        with self.place.registration(), shown(tracker, console.stderr()) as view:

            def watch(event: Event | None) -> None:
                """Note a failed run, and show the event.

                Interruptions after the deadline are no failures.
                """
                over = deadline is not None and time.monotonic() >= deadline
                failed = event is not None and event.code and event.status.state is not CellState.DONE
                # An interruption at the deadline has a non-zero exit code, too, but is no failure.
                if event is not None and failed and (event.status.state is CellState.FAILED or not over):
                    bad[str(event.status.cell.run_id)] = event.log
                view(event)

            left = to_run(statuses, retry_failed)
            try:
                Scheduler(left, self.place, self.executor, self.threads, retry_failed, limit, watch, deadline).run()
            except KeyboardInterrupt as error:
                which = error.which if isinstance(error, Interrupted) else signal.SIGINT
                raise Interrupted(which, tracker.summary([])) from error
        return bad


def local_workers(made: Plan, runs_dir: Path, jobs: int | None, threads: int) -> Workers:
    """Return workers on this machine.

    Args:
        made: Plan of the sweep.
        runs_dir: Directory of the runs.
        jobs: Parallel runs; None: one per GPU, else one.
        threads: CPU threads per run; 0: cores divided by the parallel runs (at least 1), or for one run at a time that
            of :func:`_threads_alone`.
    """
    devices = _devices(made)
    executor = LocalExecutor(jobs or len(devices) or 1, devices)
    slots = executor.room()
    share = max(1, usable_cores() // slots) if slots > 1 else _threads_alone(made, runs_dir)
    return Workers(workplace(made, runs_dir), executor, threads or share)


def _threads_alone(made: Plan, runs_dir: Path) -> int:
    """Return one number of threads for all runs of a sweep.

    0 if ``OMP_NUM_THREADS`` is set; otherwise that on record of the plan's first cell with a run (0 if it has none),
    else that of the free cores, which is also set in this process.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return 0
    for cell in made.cells:
        if cell.run_id and (segments := read_segments(Run(directory_of(runs_dir, cell.run_id)))):
            return int(segments[0].get("threads") or 0)
    from phmrun.engine.arithmetic import set_threads

    return set_threads()


def _devices(made: Plan) -> list[str]:
    """Return the numbers of the usable GPUs, as texts.

    They are those of ``CUDA_VISIBLE_DEVICES`` if it is set, at most as many as torch finds; else they count from 0.
    Empty without a GPU, or if any cell is for the CPU.
    """
    if any(cell.config and cell.config.hardware.accelerator == "cpu" for cell in made.cells):
        return []
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if visible else [str(number) for number in range(count)]


def tuned(
    sweep_plan: Plan,
    runs_dir: Path,
    jobs: int | None,
    threads: int,
    deadline: float | None = None,
    *,
    retry_failed: bool = False,
) -> Plan | None:
    """Run the remaining tuning trials.

    Return the plan with the chosen values, which are printed on standard error. The plan itself if it tunes nothing.
    None if the deadline has passed. A failed trial is not chosen; with ``retry_failed`` it is run again, once. Cells of
    a row without a chosen value have a fault.

    Raises:
        PhmrunError: (exit 5) A trial was interrupted.
    """
    if not sweep_plan.sweep.file.tune:
        return sweep_plan
    make = maker(sweep_plan)
    workers = local_workers(sweep_plan, runs_dir, jobs, threads)
    while True:
        # Repeated in each round: the next trials depend on the best values so far.
        rows = settled(
            sweep_plan, runs_dir, sweep_plan.sweep.file.tune, make, replicates=sweep_plan.sweep.file.replicates
        )
        statuses = [status for row in rows for status in row.all_trials]
        over = set(OVER) - {CellState.FAILED} if retry_failed else OVER
        left = [status for status in statuses if status.state not in over]
        if not left:
            break
        with_trials = with_choices(sweep_plan, rows, make)
        trials = [look(cell, runs_dir) for cell in with_trials.trials]
        ids = {status.cell.run_id for status in statuses}
        waiting = runs_left(with_trials, survey(with_trials, runs_dir), trials)
        later = [s for s in waiting if s.cell.searching or s.cell.run_id not in ids]
        keys = ", ".join(dict.fromkeys(key for row in rows for key in row.space))
        note(f"{len(left)} of {len(statuses)} trials of {keys} are left, {len(rows[0].all_trials)} for each row")
        bad = workers.carry_out(statuses, retry_failed=retry_failed, deadline=deadline, later=later, trials=True)
        retry_failed = False
        if is_over(deadline):
            return None
        if any(s.cell.run_id in bad and look(s.cell, runs_dir).state not in OVER for s in left):
            raise PhmrunError("a trial was interrupted", code=ExitCode.SWEEP, hint="The same command continues it.")
    for row in rows:
        if row.values is None:
            continue  # its cells have the fault
        edge = f"; at the edge of the space: {', '.join(row.at_edge)}" if row.at_edge else ""
        values = ", ".join(f"{key}={value}" for key, value in row.values.items())
        console.stderr().print(f"{row.label}: {values} of {len(row.trials)} trials{edge}", markup=False, soft_wrap=True)
    return with_choices(sweep_plan, rows, make)


def hand_over(
    statuses: Sequence[CellStatus], place: Workplace, slurm: Slurm, *, limit: int | None, script: bool
) -> None:
    """Submit the cells to SLURM as one array job.

    Running cells and those in SLURM's queue are left out, and at most ``limit`` cells are submitted; None: all. With
    ``script``, the job script is only written and printed. If no cell is left, only a message is printed.
    """
    queued = slurm.queued()
    free = [s for s in statuses if s.state is not CellState.RUNNING and s.cell.run_id not in queued][:limit]
    if not free:
        console.stderr().print(f"there is nothing to submit; {len(queued)} runs are in the queue", markup=False)
        return
    path = slurm.write([place.job(status.cell) for status in free])
    if script:
        print(path.read_text(encoding="utf-8"), end="")
        console.stderr().print(f"submit it by: sbatch {path}", markup=False, soft_wrap=True)
    else:
        job = slurm.submit(path)
        console.stdout().print(f"{len(free)} runs are submitted as SLURM job {job}", markup=False)
