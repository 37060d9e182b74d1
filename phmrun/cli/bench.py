"""``phmrun bench``: speed of runs and layers, relative to their alternatives."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phmrun.cli import completion, console
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import HARDWARE, Device, Json, Plugin, RunsDirectory, listed
from phmrun.errors import PhmrunError, counted
from phmrun.progress import waiting
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.layers import Measured

app = VerbGroup()

Texts = list[str] | None
measured = partial(typer.Option, rich_help_panel="Measurement")
Threads = Annotated[
    int, typer.Option(min=0, help="CPU threads for arithmetic; 0: torch's default.", rich_help_panel=HARDWARE)
]
Repeats = Annotated[int, measured(min=1, help="Rounds, each of which measures all candidates once; medians are shown.")]


def prepare_process(threads: int) -> None:
    """Set the number of torch's CPU threads, and keep freed memory.

    0 leaves their number unchanged. See :func:`phmrun.engine.processes.keep_freed_memory`.
    """
    from phmrun.engine.processes import keep_freed_memory

    keep_freed_memory()
    if threads:
        import torch

        torch.set_num_threads(threads)


def numbers(values: Sequence[str] | None, flag: str) -> list[int]:
    """Return the positive integers in comma-separated lists; [] for None.

    Raises:
        PhmrunError: An entry is anything else; ``flag`` names the option.
    """
    parts = listed(*values or ())
    for part in parts:
        if not part.isdecimal() or int(part) < 1:
            raise PhmrunError(f"{part!r} is not a positive whole number", where=flag)
    return [int(part) for part in parts]


def sides(text: str) -> tuple[int, int]:
    """Return (in_features, out_features) of "512x2048" or "512×2048".

    Raises:
        PhmrunError: The text is anything else.
    """
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(side.isdecimal() and int(side) for side in parts):
        raise PhmrunError(f"{text!r} is not a shape", where="--shape", hint="Write it as INxOUT: 512x2048.")
    return int(parts[0]), int(parts[1])


def print_machine(machine: dict[str, Any]) -> None:
    """Print processor or GPU, libraries, threads and torch version on one line.

    Libraries are the instruction set and BLAS, if known.
    """
    processor = machine["gpu"] if machine["device"].startswith("cuda") else machine["processor"]
    libraries = [str(machine[name]) for name in ("instruction_set", "blas") if name in machine]
    text = " · ".join([processor, *libraries, counted(machine["threads"], "thread"), f"torch {machine['torch']}"])
    console.print_line(text)


def duration(seconds: float) -> str:
    """Return seconds as text in µs below a millisecond, else in ms."""
    return f"{1e6 * seconds:,.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:,.2f} ms"


@app.command("run")
def bench_run(
    runs: Annotated[list[str], typer.Argument(metavar="RUN…", autocompletion=completion.runs)],
    only: Annotated[Literal["prediction", "validation", "training"] | None, measured()] = None,
    batches: Annotated[int, measured(min=1)] = 8,
    items: Annotated[int, measured(min=1)] = 256,
    repeats: Repeats = 5,
    plugin: Plugin = None,
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

    load_plugins(plugin)
    chosen = [Run.find(runs_dir, name) for name in runs]
    with waiting("preparing"):
        from phmrun.bench.run import Amount
        from phmrun.bench.run import bench_run as measure

    prepare_process(threads)
    amount = Amount(repeats, batches, items)
    reports = []
    for run in chosen:
        reports.append(measure(run, amount=amount, only=only, device=device))
        if not as_json:
            _print_run(reports[-1])
    if as_json:
        console.print_json({"runs": reports})


def _print_run(report: dict[str, Any]) -> None:
    """Print rates and peak memory of a run."""
    print_machine(report["machine"])
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
    from phmrun.config.sections import spelled

    load_plugins(plugin)
    sections = map(spelled, layer or STRUCTURES.names())
    structures = [(section.pop("structure"), section) for section in sections]
    orders, shapes = numbers(n, "--n"), [sides(text) for text in listed(*shape or ())]
    batches, training = numbers(tokens, "--tokens"), numbers(training_tokens, "--training-tokens")
    # After all checks that do not need torch: its import takes seconds.
    import torch

    from phmrun.bench import layers, machine
    from phmrun.engine.trained_model import choose_device

    prepare_process(threads)
    place, dtype = choose_device(device), getattr(torch, precision)
    candidates, left_out = layers.cases(structures, orders, shapes, dtype)
    if not candidates:
        raise PhmrunError(f"no layer fits: {left_out[-1]}", where="--shape")
    for reason in left_out:
        console.print_aside(f"left out: {reason}")
    machine.warn_if_busy(place)
    with layers.kernels(candidates).applied():
        facts = {**machine.facts(place), "precision": precision}
        sizes: dict[str, Any] = {"batches": batches, "training": training}
        rows = list(layers.measure(candidates, **sizes, rounds=repeats, device=place, dtype=dtype))
    if as_json:
        console.print_json({"machine": facts, "rows": [vars(row) for row in rows]})
        return
    print_machine(facts)
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
        time = duration(row.seconds[reference])
        if row.mode == "training":
            training.append((row.layer, sizes, tokens, time, row.ratios[row.auto], row.auto))
        else:
            ratios = [row.ratios.get(form) for form in forms]
            inference.append((row.layer, sizes, tokens, row.weights, time, *ratios, row.auto))
    columns = ("layer", "sizes", "tokens")
    console.print_table((*columns, reference, "ratio", "form"), training, title="\ntraining step")
    console.print_table((*columns, "weights", reference, *forms, "auto"), inference, title="\ninference")
