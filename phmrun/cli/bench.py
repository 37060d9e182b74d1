"""``phmrun bench``: how fast layers and models are, against what one would take instead."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import bench_embeddings, bench_layers, bench_networks, bench_rates, bench_table, bench_trees, console
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import MEASURED, Repeats, Threads, numbers, prepare_process, print_machine
from phmrun.cli.options import Json, RunArgument, RunsDirectory
from phmrun.errors import unknown
from phmrun.progress import waiting

if TYPE_CHECKING:
    from phmrun.bench.run import Phase, Report

app = typer.Typer(help="Speed of layers and of whole models, against others in the same run.", no_args_is_help=True)

OPPONENTS = ("hf", "dense", "ctranslate2", "ctranslate2-int8")
"""What stands beside a run without being one."""
PARTS = ("training", "decoding")
RUN_EPILOG = """Examples:

phmrun bench run nmt-multi30k-phm-1

phmrun bench run nmt-multi30k-phm-1 --against hf --against dense --threads 2

phmrun bench run nmt-multi30k-phm-1 --only decoding --against ctranslate2 --against ctranslate2-int8 --against hf"""

app.command("layers", epilog=bench_layers.EPILOG)(bench_layers.bench_layers)
app.command("networks", epilog=bench_networks.EPILOG)(bench_networks.bench_networks)
app.command("embeddings", epilog=bench_embeddings.EPILOG)(bench_embeddings.bench_embeddings)
app.command("rates", epilog=bench_rates.EPILOG)(bench_rates.bench_rates)
app.command("table", epilog=bench_table.EPILOG)(bench_table.bench_table)
app.command("trees")(bench_trees.bench_trees)


@app.command("run", epilog=RUN_EPILOG)
def bench_run(
    run: RunArgument,
    *,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN|dense|hf|ctranslate2|ctranslate2-int8",
            help="Beside it another run, a model of the same sizes (ours with dense matrices, or Hugging Face's, with "
            "the run's weights where it has a place for them), or its own weights in CTranslate2; may be repeated. "
            "With random weights, all decode as many tokens as the references have.",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="training|decoding", help="Leave the other out.", rich_help_panel=MEASURED)
    ] = None,
    batches: Annotated[
        int, typer.Option(min=1, help="Training batches in a measurement.", rich_help_panel=MEASURED)
    ] = 8,
    batch_size: Annotated[
        list[str] | None,
        typer.Option(metavar="N,…", help="Sentences decoded at a time (default: 1,64).", rich_help_panel=MEASURED),
    ] = None,
    sentences: Annotated[
        int,
        typer.Option(min=1, help="Test sentences in a measurement of decoding, in batches.", rich_help_panel=MEASURED),
    ] = 256,
    single: Annotated[
        int,
        typer.Option(min=1, help="Test sentences in a measurement of decoding one by one.", rich_help_panel=MEASURED),
    ] = 24,
    repeats: Repeats = 5,
    profile: Annotated[
        bool, typer.Option("--profile", help="Also show which operations take the time.", rich_help_panel=MEASURED)
    ] = False,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measures a run's model on its data: training and decoding speed, and the memory that they take.

    Training speed counts what the loss is averaged over: target tokens, words, sentences. Translations are searched for
    greedily and with a beam of 5; other tasks answer as predict does; both at 64 sentences and at one.
    The run's own figures are kept in its `bench.json`.
    """
    if only is not None and only not in PARTS:
        raise unknown("part", only, PARTS, where="--only")
    sizes = numbers(batch_size, "--batch-size")
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when torch is imported: its profiler writes to stderr
    with waiting("preparing"):
        from phmrun.bench.run import Amount
        from phmrun.bench.run import bench_run as measure

    prepare_process(threads)
    report = measure(
        found,
        against=[name if name in OPPONENTS else Run.find(runs_dir, name) for name in dict.fromkeys(against or [])],  # type: ignore[misc]
        amount=Amount(repeats, batches, sizes or Amount.sizes, sentences, single),
        parts=(only,) if only else PARTS,  # type: ignore[arg-type]
        profiled=profile,
        device=device,
    )
    report.record()
    if as_json:
        console.print_json(report.to_json())
    else:
        _print_run(report)


def _print_run(report: "Report") -> None:
    """Rates of the run's model and of the others, and memory; then profiles."""
    print_machine(report.machine)
    others = list(dict.fromkeys(name for phase in report.phases for name in phase.ratios))
    columns = ["", "per second", report.layer, *(part for name in others for part in (name, "ratio")), "peak memory"]
    rows = []
    for phase in report.phases:
        figures = [figure for name in others for figure in _beside(phase, name)]
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


def _beside(phase: "Phase", name: str) -> tuple[Any, Any]:
    """An opponent's rate and the ratio to it, where it takes part."""
    return (phase.rates[name], f"{phase.ratios[name]:.2f}×") if name in phase.ratios else (None, None)
