"""``phmrun sweep``: many experiments from one file; interrupted sweeps continue."""

import time
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer

from phmrun.cli import completion, console, sweep_output
from phmrun.cli.options import HARDWARE, Json, RunsDirectory
from phmrun.errors import ExitCode
from phmrun.sweeps.cell_status import CellState, survey, to_run
from phmrun.sweeps.execution import Execution, devices_of, ready, runnable
from phmrun.sweeps.executors import LocalExecutor
from phmrun.sweeps.executors.slurm import Slurm
from phmrun.sweeps.planning import planned, surveyed
from phmrun.sweeps.scheduler import Workplace

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
            run nothing. Exit code 2 if a cell or trial is invalid, 3 if data are missing.
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
    if plan:
        design, statuses = surveyed(file, only, seeds, runs_dir)
        states = sweep_output.show(design, statuses, runs_dir, jobs or 1, as_json)
        code = ExitCode.USAGE if CellState.INVALID in states else ExitCode.DATA if CellState.BLOCKED in states else 0
        raise typer.Exit(code)
    design = planned(file, only, seeds)
    deadline = None if hours is None else time.monotonic() + 3600 * hours
    tell = console.print_aside
    place = Workplace(runs_dir, design.sweep.name, tuple(design.sweep.file.plugins))
    # A cluster gets what can run now: the trials that are known so far, and the cells with chosen values.
    if script or executor == "slurm":
        design, statuses = ready(design, runs_dir)
        sweep_output.tell_faults(statuses)
        slurm = Slurm(place.path / "slurm", design.sweep.name, jobs, sbatch or [])
        left = slurm.unqueued(to_run(statuses, retry_failed))
        path = slurm.write([place.job(status.cell, threads or 0) for status in left]) if left else None
        job = slurm.submit(path) if path and not script else None
        summary = sweep_output.facts(design, survey(design, runs_dir), runs_dir, jobs or 1) if as_json else None
        sweep_output.tell_script(path, len(left), job, summary)
        if any(status.cell.fault for status in statuses):
            raise typer.Exit(ExitCode.SWEEP)
        return
    if executor == "ray":
        from phmrun.sweeps.executors.ray_cluster import RayExecutor

        design, statuses = ready(design, runs_dir)
        share = threads or 1
        execution = Execution(place, RayExecutor(cpus=share, gpus=gpus, jobs=jobs), share, deadline, tell)
    else:
        execution = Execution(place, LocalExecutor(jobs, devices_of(design)), threads, deadline, tell)
        design = execution.tuned(design, retry_failed=retry_failed)
        statuses = runnable(design, runs_dir)
    failures = execution.carry_out(statuses, retry_failed=retry_failed)
    after = survey(design, runs_dir)
    if as_json:
        console.print_json(sweep_output.facts(design, after, runs_dir, execution.executor.room()))
    raise typer.Exit(sweep_output.outcome(after, failures, as_json))
