"""From the options of ``phmrun sweep`` to a plan, and to what carries it out. Imported when the verb runs."""

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from phmrun.cli import console
from phmrun.cli.sweep_output import tell_faults
from phmrun.config.layering import OptionsOf
from phmrun.errors import Interrupted
from phmrun.ledger.environment import usable_cores
from phmrun.progress import note, waiting
from phmrun.registry import load_plugins
from phmrun.sweeps import Plan, load_sweep, plan
from phmrun.sweeps.cell_status import CellState, CellStatus, distinct
from phmrun.sweeps.executors.executor import Executor
from phmrun.sweeps.executors.local import LocalExecutor
from phmrun.sweeps.executors.slurm import Slurm
from phmrun.sweeps.file import Sweep
from phmrun.sweeps.plan import Inspect
from phmrun.sweeps.scheduler import Event, Scheduler
from phmrun.sweeps.selection import read_selection
from phmrun.sweeps.view import Tracker, shown
from phmrun.sweeps.workplace import Workplace


def planned(
    file: str, only: Sequence[str] | None = None, seeds: int | None = None, *, ledger: Path | None = None
) -> Plan:
    """The plan of a sweep, by what torch says of its networks and its data.

    Args:
        file: The sweep's file.
        only: ``key=value`` of the cells to keep.
        seeds: So many seeds instead of the file's.
        ledger: A directory of runs, which know the checksums of data that are not here.
    """
    sweep, wanted = load_sweep(file), read_selection(only or [])
    with waiting("preparing"):
        inspect, options_of = by_torch(sweep, ledger)
    return plan(sweep, inspect, options_of, seeds=seeds, only=wanted)


def by_torch(sweep: Sweep, ledger: Path | None = None) -> tuple[Inspect, OptionsOf]:
    """A look at networks and data, and the options of the structures, the sweep's own layers among them.

    Args:
        sweep: The sweep.
        ledger: A directory of runs, which know the checksums of data that are not here.
    """
    plugins = load_plugins([Path(name) for name in sweep.file.plugins])
    from phmrun.layers import options_of  # imports torch, and only now is it needed
    from phmrun.sweeps.inspection import inspector
    from phmrun.sweeps.ledger import recorded_data

    return inspector(plugins, recorded_data(ledger, options_of) if ledger else None), options_of


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


def local_executor(made: Plan, jobs: int | None) -> LocalExecutor:
    """What carries out runs on this machine: so many at a time, or one on each GPU, or one."""
    devices = _devices(made)
    return LocalExecutor(jobs or len(devices) or 1, devices)


def threads_of_a_run(slots: int) -> int:
    """The share of this machine's cores; 0, torch's own choice, where a run has the machine to itself."""
    return max(1, usable_cores() // slots) if slots > 1 else 0


def is_over(deadline: float | None) -> bool:
    """Whether the time of a call is over; says so."""
    if deadline is None or time.monotonic() < deadline:
        return False
    note("the time is over; the same command goes on")
    return True


def carry_out(
    statuses: Sequence[CellStatus],
    place: Workplace,
    executor: Executor,
    *,
    slots: int,
    threads: int,
    retry_failed: bool,
    limit: int | None,
    deadline: float | None = None,
) -> dict[str, list[str]]:
    """Runs what is left, before the user's eyes, or until the time is over.

    Returns:
        The last lines of the runs that did not end well, by their names.

    Raises:
        Interrupted: A signal ended the sweep; it says how far that is.
    """
    tracker = Tracker(statuses, place.runs_dir, slots)
    tell_faults(statuses)
    bad: dict[str, list[str]] = {}
    with place.registration(), shown(tracker, console.stderr()) as view:

        def watch(event: Event | None) -> None:
            over = deadline is not None and time.monotonic() >= deadline
            failed = event is not None and event.code and event.status.state is not CellState.DONE
            if event is not None and failed and (event.status.state is CellState.FAILED or not over):
                bad[str(event.status.cell.run_id)] = event.log
            view(event)

        wanted = to_run(statuses, retry_failed)
        try:
            Scheduler(wanted, place, executor, threads, retry_failed, limit, watch, deadline).run()
        except KeyboardInterrupt as error:
            which = error.which if isinstance(error, Interrupted) else signal.SIGINT
            raise Interrupted(which, tracker.summary([])) from error
    return bad


def hand_over(
    statuses: Sequence[CellStatus], place: Workplace, slurm: Slurm, *, limit: int | None, script: bool
) -> int:
    """Hands the cells that nobody works at over to SLURM as one array job.

    Args:
        statuses: The cells to run.
        place: The sweep's folder.
        slurm: The cluster.
        limit: At most so many cells.
        script: Only write the script, and print it.

    Returns:
        How many runs were handed over, or are named in the script.
    """
    queued = slurm.queued()
    free = [s for s in statuses if s.state is not CellState.RUNNING and s.cell.run_id not in queued][:limit]
    if not free:
        console.stderr().print(f"there is nothing to submit; {len(queued)} runs are in the queue", markup=False)
        return 0
    path = slurm.write([place.job(status.cell) for status in free])
    if script:
        print(path.read_text(encoding="utf-8"), end="")
        console.stderr().print(f"submit it by: sbatch {path}", markup=False, soft_wrap=True)
        return len(free)
    job = slurm.submit(path)
    console.stdout().print(f"{len(free)} runs are submitted as SLURM job {job}", markup=False)
    return len(free)


def _devices(made: Plan) -> list[str]:
    """The GPUs of this machine that runs may take, by their numbers; none where a run is meant for the CPU."""
    if any(cell.config and cell.config.hardware.accelerator == "cpu" for cell in made.cells):
        return []
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if visible else [str(number) for number in range(count)]
