"""``phmrun sweep``: many experiments from one file; interrupted sweeps continue."""

import os
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from phmrun.cli import completion, console, sweep_output
from phmrun.cli.options import HARDWARE, Json, RunsDirectory
from phmrun.cores import usable_cores
from phmrun.errors import ExitCode, Interrupted, PhmrunError, counted
from phmrun.ledger import Run
from phmrun.ledger.directory import directory_of
from phmrun.progress import note
from phmrun.sweeps.cell_status import CellState, CellStatus, distinct, look, runs_left, survey, unblocked
from phmrun.sweeps.executors import Executor, LocalExecutor
from phmrun.sweeps.executors.slurm import Slurm
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.planning import chosen, maker, planned
from phmrun.sweeps.scheduler import Event, Scheduler, Workplace
from phmrun.sweeps.tuning import OVER, settled, with_choices
from phmrun.sweeps.view import Tracker, shown

of_cells = partial(typer.Option, rich_help_panel="Cells")
of_a_cluster = partial(typer.Option, rich_help_panel="Cluster")


def sweep(
    file: Annotated[str, typer.Argument(metavar="FILE", autocompletion=completion.configs)],
    plan: Annotated[bool, typer.Option("--plan", "--dry-run")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, max=10_000)] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1)] = None,
    only: Annotated[list[str] | None, of_cells(metavar="KEY=VALUE")] = None,
    hours: Annotated[float | None, typer.Option(min=0)] = None,
    retry_failed: Annotated[bool, of_cells("--retry-failed")] = False,
    threads: Annotated[int, typer.Option(min=0, rich_help_panel=HARDWARE)] = 0,
    executor: Annotated[Literal["local", "slurm", "ray"], of_a_cluster()] = "local",
    sbatch: Annotated[list[str] | None, of_a_cluster(metavar="OPTION=VALUE")] = None,
    script: Annotated[bool, of_a_cluster("--script")] = False,
    gpus: Annotated[float, of_a_cluster(min=0)] = 0.0,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run many experiments from one file: `phmrun sweep FILE` runs all unfinished cells.

    Each run is a separate process of `phmrun train`; interrupted runs continue, and a failure does not stop the others.
    If the sweep is killed, the same command continues it, and runs that are still training finish. Several such
    commands share the cells. Options of an executor have no effect on others. Exit code 5 if a run failed, or a cell
    cannot run: it is invalid, or its data are missing.

    Args:
        file: Sweep file, or a paper table's file: a path, or a name such as configs/papers/phm/table2.yaml.
        plan: Show the cells, their progress, failed cells with the last lines of their logs, and the remaining time;
            run nothing. Exit code 2 if a cell is invalid, 3 if data are missing.
        only: Only cells with this value: layer=phm, layer.n=4, row=Transformer, seed=1. Another key narrows further,
            the same key again widens.
        seeds: Number of seeds per cell (default: the file's).
        hours: Time limit on this machine, in hours (exit code 0); the same command continues.
        retry_failed: Run failed cells again.
        jobs: Parallel runs (default: one per GPU, else one).
        threads: CPU threads per run; 0: number of cores divided by --jobs, or torch's default with one job.
        executor: Executor: local (this machine), slurm (one array job), ray (extra `ray`; the cluster of RAY_ADDRESS,
            else this machine). With `tune`, each command hands a cluster the trials, or then the cells, that can run.
        sbatch: SLURM: option of sbatch, as in partition=gpu; may be repeated.
        script: SLURM: write and print the job script; submit nothing.
        gpus: Ray: GPUs per run; a fraction shares a GPU.

    Examples:
        phmrun sweep sweep.yaml --plan

        phmrun sweep sweep.yaml --jobs 2

        phmrun sweep sweep.yaml --seeds 5 --only layer=phm --only layer=dense

        phmrun sweep configs/papers/phm/table2.yaml --executor slurm --sbatch partition=gpu --sbatch gres=gpu:1

        The same command again runs the cells that are not finished.
    """
    design = planned(file, only, seeds)
    if plan:
        design, statuses = _standing(design, file, only, seeds, runs_dir)
        sweep_output.show(design, statuses, runs_dir, jobs or 1, as_json)
        states = {status.state for status in statuses}
        code = ExitCode.USAGE if CellState.INVALID in states else ExitCode.DATA if CellState.BLOCKED in states else 0
        raise typer.Exit(code)
    deadline = None if hours is None else time.monotonic() + 3600 * hours
    # A cluster gets what can run now: the trials that are known so far, and the cells with chosen values.
    if script or executor != "local":
        design = chosen(design, runs_dir)
    else:
        design = _tuned(design, runs_dir, jobs, threads, deadline, retry_failed=retry_failed)
    statuses = survey(design, runs_dir)
    faults = [status.cell.fault for status in statuses if status.cell.fault is not None]
    if len(faults) == len(statuses):
        raise faults[0]
    place = _workplace(design, runs_dir)
    if script or executor == "slurm":
        sweep_output.tell_faults(statuses)
        slurm = Slurm(place.slurm, design.sweep.name, jobs, sbatch or [])
        _hand_over(to_run(_ready(design, statuses, runs_dir), retry_failed), place, slurm, script=script)
        return
    if executor == "ray":
        from phmrun.sweeps.executors.ray_cluster import RayExecutor

        share = threads or 1
        workers = Workers(place, RayExecutor(cpus=share, gpus=gpus, jobs=jobs), share, deadline)
        statuses = _ready(design, statuses, runs_dir)
    else:
        workers = _local_workers(design, runs_dir, jobs, threads, deadline)
    bad = workers.carry_out(statuses, retry_failed=retry_failed)
    after = survey(design, runs_dir)
    if as_json:
        console.print_json(sweep_output.facts(design, after, runs_dir, workers.slots))
    raise typer.Exit(sweep_output.outcome(after, bad, as_json))


def _standing(
    design: Plan, file: str, only: list[str] | None, seeds: int | None, runs_dir: Path
) -> tuple[Plan, list[CellStatus]]:
    """Return a sweep's plan, with tuned values chosen so far, and its cells' states.

    Cells whose data are not on this machine have the state on record, if there is a run: :func:`unblocked`.
    """
    design = chosen(design, runs_dir)
    statuses = survey(design, runs_dir)
    if any(status.state is CellState.BLOCKED for status in statuses):
        recorded = survey(chosen(planned(file, only, seeds, ledger=runs_dir), runs_dir), runs_dir)
        statuses = unblocked(statuses, recorded)
    return design, statuses


def _ready(design: Plan, statuses: Sequence[CellStatus], runs_dir: Path) -> list[CellStatus]:
    """Return the trials of a plan that are known so far, and the cells that wait for none."""
    return [*(look(cell, runs_dir) for cell in design.trials), *(s for s in statuses if not s.cell.searching)]


def _workplace(design: Plan, runs_dir: Path) -> Workplace:
    """Return the folder of a plan's sweep."""
    return Workplace(runs_dir, design.sweep.name, tuple(design.sweep.file.plugins))


def to_run(statuses: Sequence[CellStatus], retry_failed: bool) -> list[CellStatus]:
    """Return the cells that are neither done nor failed, each experiment once.

    With ``retry_failed``, failed cells are among them, too. Cells that cannot be run (invalid, or data missing) are
    left out.
    """
    over = {CellState.DONE} if retry_failed else {CellState.DONE, CellState.FAILED}
    return [status for status in distinct(statuses) if status.state not in over]


class Workers:
    """Workers that run the cells of a sweep.

    Args:
        place: Folder of the sweep.
        executor: Executor of the runs.
        threads: CPU threads per run; 0: torch's default.
        deadline: Time limit on the clock of ``time.monotonic``; None: no limit.
    """

    def __init__(self, place: Workplace, executor: Executor, threads: int, deadline: float | None) -> None:
        self.place, self.executor, self.threads, self.deadline = place, executor, threads, deadline
        self.slots = executor.room()

    @property
    def is_late(self) -> bool:
        """True if the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def carry_out(
        self,
        statuses: Sequence[CellStatus],
        *,
        retry_failed: bool = False,
        later: Sequence[CellStatus] = (),
        trials: bool = False,
    ) -> dict[str, list[str]]:
        """Run the remaining cells with live progress; name those that cannot run.

        Args:
            statuses: States of all cells.
            retry_failed: Run failed cells again.
            later: Further runs of the sweep that follow, for the time left.
            trials: True if the cells are trials of tuning.

        Returns:
            Last log lines, by run id, of the runs that failed, or were interrupted before the deadline.

        Raises:
            Interrupted: A signal ended the sweep; its ``outcome`` is the progress so far.
        """
        tracker = Tracker(statuses, self.place.runs_dir, self.slots, later=later, trials=trials)
        spent = self.is_late and not trials  # by the trials, after which the note was printed
        sweep_output.tell_faults(statuses)
        bad: dict[str, list[str]] = {}
        with shown(tracker, console.stderr()) as view:

            def watch(event: Event | None) -> None:
                """Note a failed run, and show the event; interruptions after the deadline are no failures."""
                failed = event is not None and event.code and event.status.state is not CellState.DONE
                if event is not None and failed and (event.status.state is CellState.FAILED or not self.is_late):
                    bad[str(event.status.cell.run_id)] = event.log
                view(event)

            left = to_run(statuses, retry_failed)
            try:
                Scheduler(left, self.place, self.executor, self.threads, retry_failed, watch, self.deadline).run()
            except KeyboardInterrupt as error:
                which = error.which if isinstance(error, Interrupted) else signal.SIGINT
                raise Interrupted(which, tracker.summary()) from error
        if self.is_late and not spent:
            note("time limit reached; the same command continues")
        return bad


def _local_workers(design: Plan, runs_dir: Path, jobs: int | None, threads: int, deadline: float | None) -> Workers:
    """Return workers on this machine.

    Args:
        design: Plan of the sweep.
        runs_dir: Directory of the runs.
        jobs: Parallel runs; None: one per GPU, else one.
        threads: CPU threads per run; 0: cores divided by the parallel runs (at least 1), or for one run at a time that
            of :func:`_threads_alone`.
    """
    devices = _devices(design)
    executor = LocalExecutor(jobs or len(devices) or 1, devices)
    slots = executor.room()
    share = max(1, usable_cores() // slots) if slots > 1 else _threads_alone(design, runs_dir)
    return Workers(_workplace(design, runs_dir), executor, threads or share, deadline)


def _threads_alone(design: Plan, runs_dir: Path) -> int:
    """Return one number of threads for all runs of a sweep.

    0 if ``OMP_NUM_THREADS`` is set; otherwise that on record of the plan's first cell with a run (0 if it has none),
    else that of the free cores, which is also set in this process.
    """
    if "OMP_NUM_THREADS" in os.environ:
        return 0
    for cell in design.cells:
        if cell.run_id and (segments := Run(directory_of(runs_dir, cell.run_id)).environment()):
            return int(segments[0].get("threads") or 0)
    from phmrun.engine.bookkeeping import set_threads

    return set_threads()


def _devices(design: Plan) -> list[str]:
    """Return the numbers of the usable GPUs, as texts.

    They are those of ``CUDA_VISIBLE_DEVICES`` if it is set, at most as many as torch finds; else they count from 0.
    Empty without a GPU, or if any cell is for the CPU.
    """
    if any(cell.config and cell.config.hardware.accelerator == "cpu" for cell in design.cells):
        return []
    import torch

    count = torch.cuda.device_count()
    visible = [name for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[:count] if visible else [str(number) for number in range(count)]


def _tuned(
    design: Plan, runs_dir: Path, jobs: int | None, threads: int, deadline: float | None, *, retry_failed: bool
) -> Plan:
    """Run the remaining tuning trials.

    Return the plan with the chosen values, which are printed on standard error. The plan itself if it tunes nothing.
    At the deadline, values are those chosen so far. A failed trial is not chosen; with ``retry_failed`` it is run
    again, once. Cells of a row without a chosen value have a fault.

    Raises:
        PhmrunError: (exit 3) The data of a trial are missing on this machine; (exit 5) a trial was interrupted.
    """
    if not design.sweep.file.tune:
        return design
    make = maker(design)
    workers = _local_workers(design, runs_dir, jobs, threads, deadline)
    while True:
        rows = settled(design, runs_dir, make)  # in each round, since the next trials depend on the best values so far
        statuses = [status for row in rows for status in row.all_trials]
        over = set(OVER) - {CellState.FAILED} if retry_failed else OVER
        left = [status for status in statuses if status.state not in over]
        if missing := next((s.cell.fault for s in left if s.state is CellState.BLOCKED), None):
            raise missing
        with_trials = with_choices(design, rows, make)
        if not left:
            break
        ids = {status.cell.run_id for status in statuses}
        waiting = runs_left(with_trials, survey(with_trials, runs_dir), statuses)
        later = [status for status in waiting if status.cell.run_id not in ids]
        keys = ", ".join(dict.fromkeys(key for row in rows for key in row.space))
        note(f"{len(left)} of {len(statuses)} trials of {keys} are left, {len(rows[0].all_trials)} for each row")
        bad = workers.carry_out(statuses, retry_failed=retry_failed, later=later, trials=True)
        retry_failed = False
        if workers.is_late:
            break
        if any(s.cell.run_id in bad and look(s.cell, runs_dir).state not in OVER for s in left):
            raise PhmrunError("a trial was interrupted", code=ExitCode.SWEEP, hint="The same command continues it.")
    for row in rows:
        if row.values is not None:  # else its cells have the fault
            edge = f"; at the edge of the space: {', '.join(row.at_edge)}" if row.at_edge else ""
            values = ", ".join(f"{key}={value}" for key, value in row.values.items())
            console.print_aside(f"{row.pilot.label}: {values} of {len(row.trials)} trials{edge}")
    return with_trials


def _hand_over(statuses: Sequence[CellStatus], place: Workplace, slurm: Slurm, *, script: bool) -> None:
    """Submit the cells to SLURM as one array job.

    Running cells and those in SLURM's queue are left out; if no cell is left, a message is printed. With ``script``,
    the job script is only written and printed.
    """
    queued = slurm.queued()
    free = [s for s in statuses if s.state is not CellState.RUNNING and s.cell.run_id not in queued]
    if not free:
        console.print_aside(f"there is nothing to submit; in the queue: {counted(len(queued), 'run')}")
        return
    path = slurm.write([place.job(status.cell) for status in free])
    if script:
        print(path.read_text(encoding="utf-8"), end="")
        console.print_aside(f"submit it by: sbatch {path}")
    else:
        console.print_line(f"{counted(len(free), 'run')} submitted as SLURM job {slurm.submit(path)}")
