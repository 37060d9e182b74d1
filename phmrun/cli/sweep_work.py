"""What carries out the plan of a sweep: workers, trials, clusters. Imported when ``phmrun sweep`` runs."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from phmrun.cli import console
from phmrun.cli.sweep_output import tell_faults
from phmrun.errors import ExitCode, Interrupted, PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.environment import usable_cores
from phmrun.ledger.run import directory_of
from phmrun.ledger.segment import read_segments
from phmrun.progress import note
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState, CellStatus, distinct
from phmrun.sweeps.executors import Executor
from phmrun.sweeps.executors.local import LocalExecutor
from phmrun.sweeps.executors.slurm import Slurm
from phmrun.sweeps.planning import maker
from phmrun.sweeps.scheduler import Event, Scheduler
from phmrun.sweeps.tuning import settled, with_choices
from phmrun.sweeps.view import Tracker, shown
from phmrun.sweeps.workplace import Workplace


def workplace(made: Plan, runs_dir: Path) -> Workplace:
    """The folder of a plan's sweep."""
    return Workplace(runs_dir, made.sweep.name, tuple(made.sweep.file.plugins))


def require_cells(statuses: Sequence[CellStatus]) -> None:
    """Refuses a sweep of which no cell can be run, by the fault of the first."""
    faults = [status.cell.fault for status in statuses if status.cell.fault is not None]
    if len(faults) == len(statuses):
        raise faults[0]


def to_run(statuses: Sequence[CellStatus], retry_failed: bool) -> list[CellStatus]:
    """The cells that are not over, each experiment once."""
    over = {CellState.DONE} if retry_failed else {CellState.DONE, CellState.FAILED}
    return [status for status in distinct(statuses) if status.state not in over]


def is_over(deadline: float | None) -> bool:
    """Whether the time of a call is over; says so."""
    if deadline is None or time.monotonic() < deadline:
        return False
    note("the time is over; the same command goes on")
    return True


class Workers:
    """What carries out the runs of a sweep, in its folder; ``threads``: of a run, 0: torch's own choice."""

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
    ) -> dict[str, list[str]]:
        """Runs what is left, before the user's eyes, or until the time is over.

        Returns the last lines of the runs that did not end well, by their names. Where a signal ends the sweep, the
        exception says how far that is.
        """
        tracker = Tracker(statuses, self.place.runs_dir, self.slots)
        tell_faults(statuses)
        bad: dict[str, list[str]] = {}
        with self.place.registration(), shown(tracker, console.stderr()) as view:

            def watch(event: Event | None) -> None:
                over = deadline is not None and time.monotonic() >= deadline
                failed = event is not None and event.code and event.status.state is not CellState.DONE
                # A run that is interrupted since the time is over leaves with such a code, too, and has not failed.
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
    """This machine: so many runs at a time, or one on each GPU, or one; its cores are shared among several."""
    devices = _devices(made)
    executor = LocalExecutor(jobs or len(devices) or 1, devices)
    slots = executor.room()
    share = max(1, usable_cores() // slots) if slots > 1 else _threads_alone(made, runs_dir)
    return Workers(workplace(made, runs_dir), executor, threads or share)


def _threads_alone(made: Plan, runs_dir: Path) -> int:
    """Return one number of threads for all runs of a sweep: that of its first run, else that of the free cores."""
    if "OMP_NUM_THREADS" in os.environ:
        return 0
    for cell in made.cells:
        if cell.run_id and (segments := read_segments(Run(directory_of(runs_dir, cell.run_id)))):
            return int(segments[0].get("threads") or 0)
    from phmrun.engine.arithmetic import set_threads

    return set_threads()


def _devices(made: Plan) -> list[str]:
    """The GPUs of this machine that runs may take, by their numbers; none where a run is meant for the CPU."""
    if any(cell.config and cell.config.hardware.accelerator == "cpu" for cell in made.cells):
        return []
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if visible else [str(number) for number in range(count)]


def tuned(made: Plan, runs_dir: Path, jobs: int | None, threads: int, deadline: float | None = None) -> Plan | None:
    """Runs the trials that are left, and returns the plan with the values that were chosen; ``None``: no time is left.

    It is an error (exit 5) if a trial was stopped before its end, or no trial of a row has a score.
    """
    if not made.sweep.file.tune:
        return made
    make = maker(made)
    workers = local_workers(made, runs_dir, jobs, threads)
    while True:
        # Anew in each round: what is tried next depends on the best values so far.
        rows = settled(made, runs_dir, made.sweep.file.tune, make, replicates=made.sweep.file.replicates)
        statuses = [status for row in rows for status in row.all_trials]
        left = [s for s in statuses if s.state not in (CellState.DONE, CellState.FAILED, CellState.INVALID)]
        if not left:
            break
        keys = ", ".join(dict.fromkeys(key for row in rows for key in row.space))
        note(f"{len(left)} of {len(statuses)} trials of {keys} are left, {len(rows[0].all_trials)} for each row")
        bad = workers.carry_out(statuses, deadline=deadline)
        if is_over(deadline):
            return None
        if any(status.cell.run_id in bad for status in left):
            raise PhmrunError(
                "a trial did not come to its end", code=ExitCode.SWEEP, hint="The same command goes on with it."
            )
    for row in rows:
        if row.values is None:
            raise PhmrunError(f"no trial of {row.label} has a score", code=ExitCode.SWEEP)
        edge = f"; at the edge of the space: {', '.join(row.at_edge)}" if row.at_edge else ""
        said = ", ".join(f"{key}={value}" for key, value in row.values.items())
        console.stderr().print(f"{row.label}: {said} of {len(row.trials)} trials{edge}", markup=False, soft_wrap=True)
    return with_choices(made, rows, make)


def hand_over(
    statuses: Sequence[CellStatus], place: Workplace, slurm: Slurm, *, limit: int | None, script: bool
) -> None:
    """Hands the cells that nobody works at over to SLURM as one array job, at most ``limit`` of them.

    With ``script`` the job's script is only written and printed.
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
