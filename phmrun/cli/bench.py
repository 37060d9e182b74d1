"""``phmrun bench``: how fast layers and models are, against what one would take instead."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Device
from phmrun.cli.options import HARDWARE, Json, Plugin, RunArgument, RunsDirectory
from phmrun.errors import PhmrunError, unknown
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.layers import Measured
    from phmrun.bench.run import Phase, Report

app = typer.Typer(help="Speed of layers and of whole models, against others in the same run.", no_args_is_help=True)

MEASURED = "What is measured"
OPPONENTS = ("hf", "dense")
"""What stands beside a run without being one."""
PARTS = ("training", "decoding")
LAYERS_EPILOG = """Examples:

phmrun bench layers --layer phm --n 4,8 --shape 512x2048 --tokens 1,64

phmrun bench layers --layer "phm n=8 variant=released" --layer dense --json"""
RUN_EPILOG = """Examples:

phmrun bench run nmt-multi30k-phm-1

phmrun bench run nmt-multi30k-phm-1 --against hf --against dense --threads 2"""

Threads = Annotated[
    int, typer.Option(min=0, help="CPU threads for arithmetic; 0: torch's own choice.", rich_help_panel=HARDWARE)
]
Repeats = Annotated[
    int,
    typer.Option(
        min=1, help="Rounds; each measures every candidate once, and medians are shown.", rich_help_panel=MEASURED
    ),
]


@app.command("layers", epilog=LAYERS_EPILOG)
def bench_layers(
    *,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Structure, with options if need be: 'phm n=8'; may be repeated (default: all).",
            rich_help_panel=MEASURED,
            autocompletion=completion.layers,
        ),
    ] = None,
    n: Annotated[
        list[str] | None,
        typer.Option(
            metavar="N,…",
            help="Values of n, for structures that have it (default: 2,4,8,16).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(
            "--shape",
            "--shapes",
            metavar="INxOUT,…",
            help="Input and output features (default: 512x512,512x2048,2048x512).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKENS,…",
            help="Input vectors per call of inference (default: 1,8,64,4096).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    training_tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKENS,…", help="Input vectors per training step (default: 4096).", rich_help_panel=MEASURED
        ),
    ] = None,
    repeats: Repeats = 15,
    plugin: Plugin = None,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measures linear maps against nn.Linear: inference with weights in the cache (hot) or not (cold), and training.

    Inference is shown under both applications, dense (W built once) and factored (W never built), and which of them
    'auto' takes for so many tokens. Figures beside the time of nn.Linear are ratios to it: below 1 is faster.
    """
    load_plugins(plugin)
    structures = [_structure(text) for text in layer or STRUCTURES.names()]
    orders, counts = _numbers(n, "--n"), _numbers(tokens, "--tokens")
    training, shapes = _numbers(training_tokens, "--training-tokens"), [_shape(text) for text in _listed(shape)]
    from phmrun.bench import layers, machine
    from phmrun.training.trained import choose_device

    _use_threads(threads)
    place = choose_device(device)
    chosen, left_out = layers.cases(structures, orders or layers.ORDERS, shapes or layers.SHAPES)
    if not chosen:
        raise PhmrunError(f"no layer fits: {left_out[0]}", where="--shape")
    for reason in left_out:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": place}
    measured = layers.measure(
        chosen,
        tokens=counts or layers.TOKENS,
        training_tokens=training or (layers.TRAINING_TOKENS,),
        rounds=repeats,
        device=place,
    )
    if as_json:
        console.print_json({"machine": facts, "rows": [row.to_json() for row in measured]})
    else:
        _print_layers(list(measured), facts)


@app.command("run", epilog=RUN_EPILOG)
def bench_run(
    run: RunArgument,
    *,
    against: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RUN|dense|hf",
            help="Beside it another run, or a model of the same sizes: ours with dense matrices, or Hugging Face's "
            "Marian; may be repeated. With dense or hf, all decode as many tokens as the references have.",
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
    """
    if only is not None and only not in PARTS:
        raise unknown("part", only, PARTS, where="--only")
    sizes = _numbers(batch_size, "--batch-size")
    from phmrun.ledger import Run

    found = Run.find(runs_dir, run)
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # read when torch is imported: its profiler writes to stderr
    from phmrun.bench.run import Amount
    from phmrun.bench.run import bench_run as measure

    _use_threads(threads)
    report = measure(
        found,
        against=[name if name in OPPONENTS else Run.find(runs_dir, name) for name in dict.fromkeys(against or [])],  # type: ignore[misc]
        amount=Amount(repeats, batches, sizes or Amount.sizes, sentences, single),
        parts=(only,) if only else PARTS,  # type: ignore[arg-type]
        profiled=profile,
        device=device,
    )
    if as_json:
        console.print_json(report.to_json())
    else:
        _print_run(report)


def _use_threads(threads: int) -> None:
    """Sets the number of CPU threads, unless it is left to torch."""
    if threads:
        import torch

        torch.set_num_threads(threads)


def _listed(values: Sequence[str] | None) -> list[str]:
    """The parts of comma-separated lists."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def _numbers(values: Sequence[str] | None, flag: str) -> list[int]:
    """Positive whole numbers from comma-separated lists."""
    parts = _listed(values)
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            raise PhmrunError(f"{part!r} is not a positive whole number", where=flag)
    return [int(part) for part in parts]


def _shape(text: str) -> tuple[int, int]:
    """(in_features, out_features) from "512x2048"."""
    sides = text.lower().replace("×", "x").split("x")
    if len(sides) != 2 or not all(side.isdecimal() and int(side) for side in sides):
        raise PhmrunError(f"{text!r} is not a shape", where="--shape", hint="Write it as INxOUT: 512x2048.")
    return int(sides[0]), int(sides[1])


def _structure(text: str) -> tuple[str, dict[str, Any]]:
    """Name and options from "phm n=8 variant=released"."""
    from phmrun.config import parse_value

    name, *options = text.split()
    given = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator:
            raise PhmrunError(f"{option!r} is not an option", where="--layer", hint="Write it as in --layer 'phm n=8'.")
        given[key] = parse_value(value, key)
    return name, given


def _print_layers(rows: Sequence["Measured"], machine: dict[str, Any]) -> None:
    """One table per mode; ratios beside the time of nn.Linear."""
    from phmrun.bench.layers import APPLICATIONS, REFERENCE

    training = [
        (row.layer, _arrow(row), row.tokens, _time(row.seconds[REFERENCE]), row.ratios[row.auto], row.auto)
        for row in rows
        if row.mode == "training"
    ]
    inference = [
        (
            row.layer,
            _arrow(row),
            row.tokens,
            row.weights,
            _time(row.seconds[REFERENCE]),
            *(row.ratios.get(application) for application in APPLICATIONS),
            row.auto,
        )
        for row in rows
        if row.mode == "inference"
    ]
    _print_machine(machine)
    if training:
        console.print_table(
            ("layer", "sizes", "tokens", REFERENCE, "ratio", "application"), training, title="\nTraining step"
        )
    if inference:
        columns = ("layer", "sizes", "tokens", "weights", REFERENCE, *(f"{name}" for name in APPLICATIONS), "auto")
        console.print_table(columns, inference, title="\nInference")


def _print_run(report: "Report") -> None:
    """Rates of the run's model and of the others, and memory; then profiles."""
    _print_machine(report.machine)
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


def _print_machine(machine: dict[str, Any]) -> None:
    parts: Iterable[str] = (
        machine["gpu"] if machine["device"].startswith("cuda") else machine["processor"],
        f"{machine['threads']} threads",
        f"torch {machine['torch']}",
    )
    console.stdout().print(" · ".join(parts), markup=False, soft_wrap=True)


def _arrow(row: "Measured") -> str:
    return f"{row.in_features} → {row.out_features}"


def _time(seconds: float) -> str:
    """Micro- or milliseconds."""
    return f"{1e6 * seconds:,.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:,.2f} ms"
