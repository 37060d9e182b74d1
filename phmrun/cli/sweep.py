"""``phmrun sweep``: many experiments from one file; interrupted sweeps continue."""

import time
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from phmrun.cli import completion, console
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import HARDWARE, Json, RunsDirectory
from phmrun.errors import ExitCode, nearest, unknown

if TYPE_CHECKING:
    from phmrun.sweeps import Plan
    from phmrun.sweeps.cell_status import CellStatus

EPILOG = """Examples:

phmrun sweep sweep.yaml --plan

phmrun sweep sweep.yaml --jobs 2

phmrun sweep sweep.yaml --seeds 5 --only layer=phm --only layer=dense

phmrun sweep configs/papers/phm/table2.yaml --executor slurm --sbatch partition=gpu --sbatch gres=gpu:1

The same command again runs the cells that are not finished."""


class _RunByDefault(TyperGroup):
    """Group whose default verb is run: `sweep FILE` is `sweep run FILE`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; unless the first is a verb or help, run is inserted.

        So ``sweep --plan FILE`` is ``sweep run --plan FILE``. Without arguments, nothing is inserted.

        Raises:
            PhmrunError: The first word resembles a verb, and another word follows.
        """
        named = not args or args[0] in self.commands or args[0] in ("-h", "--help")
        if not named and len(args) > 1 and nearest(args[0], self.commands) and not args[1].startswith("-"):
            raise unknown("command", args[0], self.commands, where="phmrun sweep")
        return list(super().parse_args(ctx, args if named else ["run", *args]))


app = VerbGroup(
    cls=_RunByDefault,
    no_args_is_help=True,
    help="Run many experiments from one file: `phmrun sweep FILE` runs all unfinished cells.",
    epilog=EPILOG,
)


class ExecutorName(StrEnum):
    """Executor of the runs."""

    LOCAL = "local"
    SLURM = "slurm"
    RAY = "ray"


of_cells = partial(typer.Option, rich_help_panel="Cells")
of_a_cluster = partial(typer.Option, rich_help_panel="Cluster")
on_hardware = partial(typer.Option, rich_help_panel=HARDWARE)
File = Annotated[
    str,
    typer.Argument(
        metavar="FILE",
        help="Sweep file, or a paper table's file: a path, or a name such as configs/papers/phm/table2.yaml.",
        autocompletion=completion.configs,
    ),
]
Only = Annotated[
    list[str] | None,
    of_cells(
        metavar="KEY=VALUE",
        help="Only cells with this value: layer=phm, layer.n=4, row=Transformer, seed=1. Another key narrows further, "
        "the same key again widens.",
    ),
]
Seeds = Annotated[int | None, of_cells(min=1, max=10_000, help="Number of seeds per cell (default: the file's).")]
Jobs = Annotated[int | None, on_hardware("--jobs", "-j", min=1, help="Parallel runs (default: one per GPU, else one).")]
Threads = Annotated[
    int,
    on_hardware(
        min=0, help="CPU threads per run; 0: number of cores divided by --jobs, or torch's default with one job."
    ),
]


@app.command("run", epilog=EPILOG)
def run(
    file: File,
    plan: Annotated[bool, typer.Option("--plan", "--dry-run")] = False,
    only: Only = None,
    seeds: Seeds = None,
    hours: Annotated[float | None, typer.Option(min=0)] = None,
    limit: Annotated[int | None, of_cells(min=1)] = None,
    retry_failed: Annotated[bool, of_cells("--retry-failed")] = False,
    jobs: Jobs = None,
    threads: Threads = 0,
    executor: Annotated[ExecutorName, of_a_cluster()] = ExecutorName.LOCAL,
    sbatch: Annotated[list[str] | None, of_a_cluster(metavar="OPTION=VALUE")] = None,
    script: Annotated[bool, of_a_cluster("--script")] = False,
    address: Annotated[str | None, of_a_cluster()] = None,
    gpus: Annotated[float, of_a_cluster(min=0)] = 0.0,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Run all unfinished cells of a sweep; interrupted runs continue.

    Each run is a separate process of `phmrun train`; a failure does not stop the others. If the sweep is killed, the
    same command continues it, and runs that are still training finish. Several such commands share the cells. Options
    of an executor have no effect on others. Exit code 5 if a run failed or the data of a cell are missing.

    Args:
        plan: Show the cells, their progress and the remaining time; run nothing. Exit code 2 if a cell is
            invalid, 3 if data are missing.
        hours: Time limit on this machine, in hours (exit code 0); the same command continues.
        limit: Maximum number of runs that this call starts.
        retry_failed: Run failed cells again.
        executor: Executor: local (this machine), slurm (one array job), ray (a Ray cluster; extra `ray`).
        sbatch: SLURM: option of sbatch, as in partition=gpu; may be repeated.
        script: SLURM: write and print the job script; submit nothing.
        address: Ray: address of the cluster (default: RAY_ADDRESS, else this machine).
        gpus: Ray: GPUs per run; a fraction shares a GPU.
    """
    from phmrun.cli import sweep_output, sweep_work

    if plan:
        from phmrun.sweeps.cell_status import CellState

        sweep_plan, statuses = _standing(file, only, seeds, runs_dir)
        sweep_output.show(sweep_plan, statuses, runs_dir, jobs or 1, as_json)
        if any(status.state is CellState.INVALID for status in statuses):
            raise typer.Exit(ExitCode.USAGE)
        if any(status.state is CellState.BLOCKED for status in statuses):
            raise typer.Exit(ExitCode.DATA)
        return
    from phmrun.sweeps.cell_status import survey
    from phmrun.sweeps.executors.slurm import Slurm
    from phmrun.sweeps.planning import chosen, planned

    deadline = None if hours is None else time.monotonic() + 3600 * hours
    sweep_plan = planned(file, only, seeds)
    # Tuning trials run on this machine only; a cluster gets the values that were chosen so far.
    if script or executor is not ExecutorName.LOCAL:
        sweep_plan = chosen(sweep_plan, runs_dir)
    else:
        tuned = sweep_work.tuned(sweep_plan, runs_dir, jobs, threads, deadline, retry_failed=retry_failed)
        if tuned is None:
            return
        sweep_plan = tuned
    statuses = survey(sweep_plan, runs_dir)
    sweep_work.require_cells(statuses)
    place = sweep_work.workplace(sweep_plan, runs_dir)
    if script or executor is ExecutorName.SLURM:
        sweep_output.tell_faults(statuses)
        slurm = Slurm(place.slurm, sweep_plan.sweep.name, jobs, sbatch or [])
        sweep_work.hand_over(sweep_work.to_run(statuses, retry_failed), place, slurm, limit=limit, script=script)
        return
    if executor is ExecutorName.RAY:
        from phmrun.sweeps.executors.ray_cluster import RayExecutor

        share = threads or 1
        workers = sweep_work.Workers(place, RayExecutor(address, cpus=share, gpus=gpus, jobs=jobs), share)
    else:
        workers = sweep_work.local_workers(sweep_plan, runs_dir, jobs, threads)
    bad = workers.carry_out(statuses, retry_failed=retry_failed, limit=limit, deadline=deadline)
    sweep_work.is_over(deadline)
    after = survey(sweep_plan, runs_dir)
    if as_json:
        console.print_json(sweep_output.facts(sweep_plan, after, runs_dir, workers.slots))
    raise typer.Exit(sweep_output.outcome(after, bad, as_json))


@app.command("status")
def status(
    file: File,
    only: Only = None,
    seeds: Seeds = None,
    jobs: Jobs = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show the progress of a sweep.

    Running cells are listed one by one, failed cells with the last lines of their logs.
    """
    from phmrun.cli import sweep_output
    from phmrun.sweeps.cell_status import CellState

    sweep_plan, statuses = _standing(file, only, seeds, runs_dir)
    sweep_output.show(sweep_plan, statuses, runs_dir, jobs or 1, as_json)
    if not as_json:
        sweep_output.tell_failures([status for status in statuses if status.state is CellState.FAILED], {})


@app.command("cancel")
def cancel(file: File, seeds: Seeds = None, runs_dir: RunsDirectory = Path("runs"), as_json: Json = False) -> None:
    """Interrupt a sweep's runs on this machine and cancel its SLURM jobs.

    All of them can continue later. The commands that run the sweep on this machine end, too.
    """
    from phmrun.cli import sweep_work
    from phmrun.sweeps.cell_status import survey
    from phmrun.sweeps.executors.slurm import cancel_jobs
    from phmrun.sweeps.planning import planned
    from phmrun.sweeps.scheduler import cancel as end

    sweep_plan = planned(file, seeds=seeds)
    place = sweep_work.workplace(sweep_plan, runs_dir)
    jobs = cancel_jobs(place.slurm)
    result = end(place, survey(sweep_plan, runs_dir))
    if as_json:
        console.print_json({"planners": result.planners, "runs": result.runs, "slurm": jobs, "left": result.left})
        return
    lines = [f"SLURM job {job} is canceled" for job in jobs]
    lines += [f"{name} is interrupted" for name in result.runs]
    lines += [f"{name} still runs on {host}: cancel it there" for name, host in result.left.items()]
    if not lines:
        lines = ["the planner is ended" if result.planners else "nothing is at work"]
    for line in lines:
        console.stdout().print(line, markup=False, soft_wrap=True)


def _standing(file: str, only: list[str] | None, seeds: int | None, runs_dir: Path) -> "tuple[Plan, list[CellStatus]]":
    """Return a sweep's plan, with tuned values chosen so far, and its cells' states.

    Cells whose data are not on this machine have the state on record, if there is a run.
    """
    from phmrun.sweeps.cell_status import CellState, survey
    from phmrun.sweeps.planning import chosen, planned

    sweep_plan = chosen(planned(file, only, seeds), runs_dir)
    statuses = survey(sweep_plan, runs_dir)
    if any(status.state is CellState.BLOCKED for status in statuses):
        recorded = survey(chosen(planned(file, only, seeds, ledger=runs_dir), runs_dir), runs_dir)
        statuses = [
            record if status.state is CellState.BLOCKED and record.run else status
            for status, record in zip(statuses, recorded, strict=True)
        ]
    return sweep_plan, statuses
