"""``phmrun bench``: speed of runs and layers, relative to their alternatives."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phmrun.cli import completion, console, measuring
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.measuring import Repeats, Texts, Threads, measured
from phmrun.cli.options import Device, Json, Plugin, RunsDirectory
from phmrun.errors import PhmrunError
from phmrun.progress import waiting
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.layers import Measured

app = VerbGroup(
    help="Measure the speed of layers and models, relative to a baseline in the same process.", no_args_is_help=True
)

PARTS = ("prediction", "validation", "training")


@app.command("run")
def bench_run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", autocompletion=completion.runs)],
    only: Annotated[Literal["prediction", "validation", "training"] | None, measured()] = None,
    batches: Annotated[int, measured(min=1)] = 8,
    items: Annotated[int, measured(min=1)] = 256,
    repeats: Repeats = 5,
    threads: Threads = 0,
    device: Device = "auto",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measure speed and memory of trained runs in training, validation and prediction.

    Training and validation are in units of the loss per second: target tokens, words or sentences. Test items are
    predicted as by `phmrun predict`, one by one and in the run's batches. The run's library of products is used
    (hardware.kernels).

    The figures are stored in bench.json of each run: also the times that a paper table's columns of seconds show. With
    --threads 1 on the CPU, times are CPU time, which other work on the machine disturbs less.

    Args:
        runs: Run ids, unique prefixes of one, paths, or latest.
        only: Measure only this part.
        batches: Training and validation batches per measurement.
        items: Test items per measurement of prediction; of those one by one, a tenth.

    Examples:
        phmrun bench run nmt-multi30k-phm-1
        phmrun bench run runs/nmt-* --threads 1 && phmrun table configs/papers/phm/table4.yaml --paper
    """
    from phmrun.ledger import Run

    chosen = [Run.find(runs_dir, name) for name in runs]
    with waiting("preparing"):
        from phmrun.bench.run import Amount
        from phmrun.bench.run import bench_run as measure

    measuring.prepare_process(threads)
    amount, parts = Amount(repeats, batches, items), (only,) if only else PARTS
    reports = []
    for run in chosen:
        reports.append(measure(run, amount=amount, parts=parts, device=device))
        if not as_json:
            _print_run(reports[-1])
    if as_json:
        console.print_json({"runs": reports})


def _print_run(report: dict[str, Any]) -> None:
    """Print rates and peak memory of a run."""
    measuring.print_machine(report["machine"])
    rows = [
        (
            phase["phase"],
            phase["unit"].removesuffix("/s"),
            phase["rate"],
            f"{phase['peak_memory_bytes'] / 2**20:,.0f} MiB",
        )
        for phase in report["phases"]
    ]
    console.print_table(["", "per second", report["layer"], "peak memory"], rows, title=f"\n{report['run_id']}")


@app.command("layers")
def bench_layers(
    layer: Annotated[Texts, measured(metavar="NAME", autocompletion=completion.layers)] = None,
    n: Annotated[Texts, measured(metavar="N,…")] = None,
    shape: Annotated[Texts, measured("--shape", "--shapes", metavar="INxOUT,…")] = None,
    tokens: Annotated[Texts, measured(metavar="TOKENS,…")] = None,
    training_tokens: Annotated[Texts, measured(metavar="TOKENS,…")] = None,
    precision: Annotated[Literal["float32", "bfloat16"], measured()] = "float32",
    repeats: Repeats = 15,
    plugin: Plugin = None,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure linear maps relative to nn.Linear, in training and inference.

    Inference is measured with hot (cached) and cold (uncached) weights.

    It is measured in each form, too: dense (W built once) and factored (W never built). 'auto' is the form that phmrun
    chooses in training, and in inference for this number of tokens. Figures are ratios to the time of nn.Linear: below
    1 is faster.

    Args:
        layer: Structure, with options if needed: 'phm n=8'; may be repeated (default: all).
        n: Orders n, for structures that have the option (default: 2,4,8,16).
        shape: Input × output features (default: 512x512,512x2048,2048x512).
        tokens: Input vectors per call in inference (default: 1,8,64,4096).
        training_tokens: Input vectors per training step (default: 4096).
        precision: Floating-point format; bfloat16: training under autocast, inference with bfloat16 weights.

    Examples:
        phmrun bench layers --layer phm --n 4,8 --shape 512x2048 --tokens 1,64
        phmrun bench layers --layer "phm n=8 variant=released" --layer dense --json
    """
    load_plugins(plugin)
    structures = [measuring.name_and_options(text, "--layer") for text in layer or STRUCTURES.names()]
    orders, shapes = measuring.numbers(n, "--n"), [measuring.sides(text) for text in measuring.listed(shape)]
    batches, training = measuring.numbers(tokens, "--tokens"), measuring.numbers(training_tokens, "--training-tokens")
    # After all checks that do not need torch: its import takes seconds.
    import torch

    from phmrun.bench import layers, machine
    from phmrun.engine.trained_model import choose_device

    measuring.prepare_process(threads)
    place, dtype = choose_device(device), getattr(torch, precision)
    candidates, left_out = layers.cases(structures, orders, shapes, dtype)
    if not candidates:
        raise PhmrunError(f"no layer fits: {left_out[-1]}", where="--shape")
    for reason in left_out:
        console.print_aside(f"left out: {reason}")
    machine.warn_if_busy()
    with layers.kernels(candidates).applied():
        facts = {**machine.facts(place), "precision": precision}
        sizes: dict[str, Any] = {"batches": batches, "training": training}
        rows = list(layers.measure(candidates, **sizes, rounds=repeats, device=place, dtype=dtype))
    if as_json:
        console.print_json({"machine": facts, "rows": [vars(row) for row in rows]})
        return
    measuring.print_machine(facts)
    _print_layers(rows, layers.REFERENCE)


def _print_layers(rows: Sequence["Measured"], reference: str) -> None:
    """Print a table of training and one of inference.

    Each has the time of ``nn.Linear``, and ratios to it: in training, of the form that phmrun chooses; in inference, of
    each form.
    """
    forms = ("dense", "factored")
    training, inference = [], []
    for row in rows:
        sizes, tokens = f"{row.in_features} → {row.out_features}", f"{row.tokens:,}"
        time = measuring.duration(row.seconds[reference])
        if row.mode == "training":
            training.append((row.layer, sizes, tokens, time, row.ratios[row.auto], row.auto))
        else:
            ratios = [row.ratios.get(form) for form in forms]
            inference.append((row.layer, sizes, tokens, row.weights, time, *ratios, row.auto))
    columns = ("layer", "sizes", "tokens")
    console.print_table((*columns, reference, "ratio", "form"), training, title="\ntraining step")
    console.print_table((*columns, "weights", reference, *forms, "auto"), inference, title="\ninference")
