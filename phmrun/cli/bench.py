"""``phmrun bench``: speed of layers and models, relative to their alternatives."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import bench_layers, console, measuring
from phmrun.cli.decoding import Device
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.measuring import Repeats, Texts, Threads, measured
from phmrun.cli.options import Json, RunArgument, RunsDirectory
from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.progress import note, progress, waiting

if TYPE_CHECKING:
    from phmrun.bench.run_report import Report

app = VerbGroup(
    help="Measure the speed of layers and models, relative to a baseline in the same process.", no_args_is_help=True
)

OPPONENTS = ("hf", "dense", "ctranslate2", "ctranslate2-int8")  # opponents that are not runs
PARTS = ("training", "decoding")

BatchSizes = Annotated[Texts, measured(metavar="N,…", help="Batch sizes of decoding, in sentences (default: 1,64).")]

app.command("layers")(bench_layers.bench_layers)


app.command("rates")(bench_layers.bench_rates)


@app.command("table")
def bench_table(
    file: Annotated[str, typer.Argument(metavar="FILE")],
    only: Annotated[Texts, typer.Option(metavar="KEY=VALUE")] = None,
    again: Annotated[bool, typer.Option("--again")] = False,
    batches: Annotated[int, measured(min=1)] = 8,
    sentences: Annotated[int, measured(min=1)] = 256,
    repeats: Repeats = 3,
    cpu_time: Annotated[bool, measured("--cpu-time")] = False,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measure the finished runs of a table's cells, for its columns of times.

    Times are stored in bench.json in each run directory. `phmrun table FILE --paper` shows them next to the paper's.

    Runs that have been measured are measured again only with --again.

    It is an error if the file has no column of times, or none of its cells a finished run.

    Args:
        file: A paper table's file, or its reduced version: configs/papers/phm/table4.yaml.
        only: Only cells with this value: row=Vanilla, seed=1.
        again: Measure again runs that have been measured.
        batches: Training or validation batches per measurement.
        sentences: Test items per measurement; larger test sets are extrapolated.
        cpu_time: Measure CPU time instead of wall time, on a busy machine.

    Examples:
        phmrun bench table configs/papers/phm/table4.yaml
        phmrun bench table configs/papers/reproduction/table5-small.yaml --threads 1 --sentences 64
        phmrun table configs/papers/phm/table4.yaml --paper
    """
    from phmrun.ledger.recorded_run import PREFIX, TIMES, RecordedRun
    from phmrun.ledger.status import State
    from phmrun.sweeps.cell_status import distinct, survey
    from phmrun.sweeps.planning import recorded_plan

    plan = recorded_plan(file, runs_dir, only)
    columns = plan.sweep.table.columns.values() if plan.sweep.table else []
    wanted = {str(column.score) for column in columns if str(column.score).startswith(PREFIX)}
    if not wanted:
        raise PhmrunError("no column of this file is a time", where=file, hint="`phmrun bench run RUN` measures a run.")
    # Several cells may be one experiment, whose run is measured once.
    statuses = distinct(survey(plan, runs_dir))
    runs = [status.run for status in statuses if status.run and status.run.state == State.DONE]
    if not runs:
        hint = "`phmrun sweep FILE` makes them; --runs-dir names another directory of runs."
        raise PhmrunError(
            f"none of its cells has a finished run in {runs_dir}", where=file, hint=hint, code=ExitCode.DATA
        )
    from phmrun.bench.machine import warn_if_busy
    from phmrun.bench.run_report import Amount
    from phmrun.bench.times import measure_times

    measuring.prepare_process(threads)
    warn_if_busy()
    times_by_run = {}
    with progress("measuring", len(runs), "runs") as advance:
        for run in runs:
            lacking = wanted if again else wanted - run.times.keys()
            if lacking:
                amount = Amount(repeats, batches, sentences=sentences)
                measure_times(run.run, lacking, amount, device, "cpu" if cpu_time else "wall")
            times_by_run[run.id] = {name: entry for name, entry in RecordedRun(run.run).times.items() if name in wanted}
            advance(1)
    if as_json:
        console.print_json(times_by_run)
        return
    measuring.print_machine(next(entry["machine"] for times in times_by_run.values() for entry in times.values()))
    shown = sorted(wanted)
    lines = [(name, *(f"{times[key]['value']:.4g}" for key in shown)) for name, times in times_by_run.items()]
    console.print_table(("run", *(TIMES[key] for key in shown)), lines)


@app.command("run")
def bench_run(
    run: RunArgument,
    against: Annotated[Texts, measured(metavar="RUN|dense|hf|ctranslate2|ctranslate2-int8")] = None,
    only: Annotated[str | None, measured(metavar="training|decoding")] = None,
    batches: Annotated[int, measured(min=1)] = 8,
    batch_size: BatchSizes = None,
    sentences: Annotated[int, measured(min=1)] = 256,
    single: Annotated[int, measured(min=1)] = 24,
    repeats: Repeats = 5,
    profile: Annotated[bool, measured("--profile")] = False,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measure training speed, decoding speed and memory of a run's model.

    Training speed is in units of the loss per second: target tokens, words or sentences. Translations are decoded
    greedily and with beam size 5, other tasks as in `phmrun predict`; both with batches of 64 sentences and of one.
    All compute with the run's library of products (hardware.kernels). The run's own figures are stored in its
    bench.json.

    Args:
        against: Opponent: another run, the same model with dense matrices, Hugging Face's model of the same size (with
            the run's weights if they fit), or the run's weights in CTranslate2; may be repeated. With random weights,
            all decode as many tokens as the references have.
        only: Measure only training or only decoding.
        batches: Training batches per measurement.
        sentences: Test sentences per measurement of decoding in batches.
        single: Test sentences per measurement of decoding one by one.
        profile: Also print a profile: the operations that take the most time.

    Examples:
        phmrun bench run nmt-multi30k-phm-1
        phmrun bench run nmt-multi30k-phm-1 --against hf --against dense --threads 2
        phmrun bench run latest --only decoding --against ctranslate2 --against ctranslate2-int8 --against hf
    """
    if only is not None and only not in PARTS:
        raise unknown("part", only, PARTS, where="--only")
    sizes = measuring.numbers(batch_size, "--batch-size")
    from phmrun.ledger import Run

    measured_run = Run.find(runs_dir, run)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when torch is imported: its profiler writes to stderr
    with waiting("preparing"):
        from phmrun.bench.run import bench_run as measure
        from phmrun.bench.run_report import Amount

    measuring.prepare_process(threads)
    report = measure(
        measured_run,
        against=[name if name in OPPONENTS else Run.find(runs_dir, name) for name in dict.fromkeys(against or [])],  # type: ignore[misc]
        amount=Amount(repeats, batches, sizes or Amount.sizes, sentences, single),
        parts=(only,) if only else PARTS,  # type: ignore[arg-type]
        profiled=profile,
        device=device,
        finished=_keep,
    )
    report.record()
    if as_json:
        console.print_json(report.to_json())
    else:
        _print_run(report)


def _keep(report: "Report") -> None:
    """Write a report's phases so far into the run's ``bench.json``; log their rates.

    So a later failure loses nothing.
    """
    report.record()
    for phase in report.phases:
        beside = [f"{ratio:.2f} times {name}" for name, ratio in phase.ratios.items()]
        note(", ".join([f"{phase.name}: {phase.rates['run']:,.1f} {phase.unit} per second", *beside]))


def _print_run(report: "Report") -> None:
    """Print rates, peak memory and profiles of a run and its opponents.

    Each opponent has a column of its rate and one of the run's ratio to it, "–" if it was not measured.
    """
    measuring.print_machine(report.machine)
    others = list(dict.fromkeys(name for phase in report.phases for name in phase.ratios))
    columns = ["", "per second", report.layer, *(part for name in others for part in (name, "ratio")), "peak memory"]
    rows = []
    for phase in report.phases:
        figures: list[float | str | None] = []
        for name in others:
            figures += (phase.rates[name], f"{phase.ratios[name]:.2f}×") if name in phase.ratios else (None, None)
        memory = f"{phase.peak_memory / 2**20:,.0f} MiB"
        rows.append((phase.name, phase.unit, phase.rates["run"], *figures, memory))
    console.print_table(columns, rows, title=f"\n{report.run.id}")
    for phase in report.phases:
        if phase.operations:
            lines = [
                (operation.name, operation.calls, f"{1000 * operation.seconds:,.1f} ms", f"{operation.share:.1%}")
                for operation in phase.operations
            ]
            title = f"\n{phase.name}: where the time of {phase.amount:,} {phase.unit} goes"
            console.print_table(("operation", "calls", "own time", "share"), lines, title=title)
