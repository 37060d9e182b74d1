"""``phmrun bench layers`` and ``rates``: speed and first steps of modules."""

from collections.abc import Sequence
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console, measuring
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import Repeats, Texts, Threads, measured
from phmrun.cli.options import Json, Plugin, RunsDirectory
from phmrun.errors import PhmrunError, unknown
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.layers import Measured
    from phmrun.bench.lookup_memory import LookupMemory

MODULES = ("linear", "lstm", "embedding", "output", "biaffine")
ALL = "all"
PRECISIONS = ("float32", "bfloat16")
OPTIMIZERS = ("adam", "adamw", "sgd")
RATES = ("rates=one", "rates=structure", "rates=measured")
LAYERS = ("phm n=2", "phm n=4", "phm n=8", "phm n=16", "kronecker rank=16", "low-rank", "monarch", "blast")


def bench_layers(
    module: Annotated[Texts, measured(metavar="|".join((*MODULES, ALL)))] = None,
    layer: Annotated[Texts, measured(metavar="NAME", autocompletion=completion.layers)] = None,
    n: Annotated[Texts, measured(metavar="N,…")] = None,
    shape: Annotated[Texts, measured("--shape", "--shapes", metavar="INxOUT,…")] = None,
    tokens: Annotated[Texts, measured(metavar="TOKENS,…")] = None,
    training_tokens: Annotated[Texts, measured(metavar="TOKENS,…")] = None,
    precision: Annotated[str, measured(metavar="|".join(PRECISIONS))] = PRECISIONS[0],
    rows: Annotated[int, measured(min=0)] = 10_000_000,
    repeats: Repeats = 15,
    plugin: Plugin = None,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measure modules relative to torch's dense ones, in training and inference.

    Inference is measured with hot (cached) and cold (uncached) weights.

    It is measured in each form of a module, too: dense (W built once), factored (W never built), unfolded (W built at
    each call, as after training). 'auto' is the form that phmrun chooses in training, and in inference for this number
    of tokens. Figures are ratios to the time of the torch module: below 1 is faster.

    Args:
        module: Module that contains the matrices; may be repeated (default: linear).
        layer: Structure, with options if needed: 'phm n=8'; may be repeated (default: all).
        n: Orders n, for structures that have the option (default: 2,4,8,16).
        shape: Input × output features; embedding: rows × width; biaffine: features × labels (linear's default:
            512x512,512x2048,2048x512).
        tokens: Input vectors per call in inference; lstm and biaffine: SENTENCESxLENGTH (linear's default:
            1,8,64,4096).
        training_tokens: Input vectors per training step, in the form of --tokens (linear's default: 4096).
        precision: Floating-point format; bfloat16: training under autocast, inference with bfloat16 weights.
        rows: Rows of the large tables whose lookup memory --module embedding measures; 0: none.

    Examples:
        phmrun bench layers --layer phm --n 4,8 --shape 512x2048 --tokens 1,64
        phmrun bench layers --module lstm --layer "phm n=5 variant=released" --layer dense --json
        phmrun bench layers --module all --n 4,8
    """
    load_plugins(plugin)
    named = module or ["linear"]
    for name in named:
        if name not in (*MODULES, ALL):
            raise unknown("module", name, (*MODULES, ALL), where="--module")
    modules = list(MODULES if ALL in named else dict.fromkeys(named))
    structures = [measuring.name_and_options(text, "--layer") for text in layer or STRUCTURES.names()]
    orders, shapes = measuring.numbers(n, "--n"), [measuring.sides(text) for text in measuring.listed(shape)]
    batches = [_batch(text, "--tokens") for text in measuring.listed(tokens)]
    training = [_batch(text, "--training-tokens") for text in measuring.listed(training_tokens)]
    if len(modules) > 1 and (shapes or batches or training):
        raise PhmrunError("sizes can be given for one module at a time", where="--module", valid=MODULES)
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS, where="--precision")
    # After all checks that do not need torch: its import takes seconds.
    import torch

    from phmrun.bench import layers, machine
    from phmrun.bench.layers import check_batches, survey
    from phmrun.bench.lookup_memory import lookup_memory
    from phmrun.engine.trained_model import choose_device

    check_batches(modules, batches, "--tokens")
    check_batches(modules, training, "--training-tokens")
    measuring.prepare_process(threads)
    place, dtype = choose_device(device), getattr(torch, precision)
    plan = survey(modules, structures, orders=orders, shapes=shapes, dtype=dtype, rows=rows)
    for reason in plan.left_out:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    machine.warn_if_busy()
    measure = partial(layers.measure, batches=batches, training=training, rounds=repeats)
    with layers.kernels(plan.candidates).applied():
        facts = {**machine.facts(), "device": place, "precision": precision, "gflops": layers.best_gflops(place, dtype)}
        memory = list(lookup_memory(plan.tables, device=place))
        measurements = list(measure(plan.candidates, device=place, dtype=dtype))
    if as_json:
        report = {"machine": facts, "rows": [row.to_json() for row in measurements]}
        console.print_json({**report, "memory": [row.to_json() for row in memory]} if memory else report)
        return
    measuring.print_machine(facts)
    console.stdout().print(f"largest product: {facts['gflops']:,.0f} GFLOP/s", markup=False)
    for name, group in groupby(measurements, key=lambda row: row.module):
        print_module(name, list(group))
    if memory:
        _print_memory(memory)


def _batch(text: str, flag: str) -> tuple[int, ...]:
    """Return the sizes of a batch, (256, 30) for "256x30".

    Raises:
        PhmrunError: A size is not a positive integer; ``flag`` names the option.
    """
    return tuple(measuring.number(part, flag) for part in text.lower().replace("×", "x").split("x"))


def print_module(name: str, rows: Sequence["Measured"]) -> None:
    """Print a kind of module: a table of training, one of inference.

    Each has the time of the torch module, and ratios to it: in training, of the form that phmrun chooses, with GFLOP/s
    of linear maps; in inference, of each form.
    """
    reference = rows[0].reference
    forms = [form for form in ("dense", "factored", "unfolded") if any(form in row.ratios for row in rows)]
    training, inference = [], []
    for row in rows:
        sizes, batch = f"{row.in_features} → {row.out_features}", " × ".join(f"{side:,}" for side in row.batch)
        time = measuring.duration(row.seconds[reference])
        if row.mode == "training":
            speeds = [f"{row.gflops[name]:,.0f}" if row.gflops else "" for name in (reference, row.auto)]
            training.append((row.layer, sizes, batch, time, row.ratios[row.auto], row.auto, *speeds))
        else:
            ratios = [row.ratios.get(form) for form in forms]
            inference.append((row.layer, sizes, batch, row.weights, time, *ratios, row.auto))
    columns = ("layer", "sizes", "batch")
    heads = (*columns, reference, "ratio", "form", f"GFLOP/s: {reference}", "layer")
    console.print_table(heads, training, title=f"\n{name}: training step")
    console.print_table((*columns, "weights", reference, *forms, "auto"), inference, title=f"\n{name}: inference")


def _print_memory(rows: Sequence["LookupMemory"]) -> None:
    """Print the memory of tables, parameters and lookups, in MiB.

    There is a row for each layer, with the sizes of its table.
    """
    lines = []
    for row in rows:
        sizes = [size / 2**20 for size in (row.table, row.parameters, row.lookup)]
        shown = [f"{size:,.1f} MiB" if size < 100 else f"{size:,.0f} MiB" for size in sizes]
        lines.append((row.layer, f"{row.rows:,} × {row.width}", *shown))
    columns = ("layer", "table", "dense", "parameters", "lookup, at its peak")
    console.print_table(columns, lines, title=f"\nembedding: a lookup of {rows[0].tokens} vectors")


def bench_rates(
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", autocompletion=completion.runs)] = None,
    layer: Annotated[
        Texts,
        measured(
            metavar="'NAME k=v …'",
            help=f"Structure with options; may be repeated (default: {', '.join(LAYERS)}).",
            autocompletion=completion.layers,
        ),
    ] = None,
    shape: Annotated[str, measured(metavar="INxOUT")] = "512x512",
    optimizer: Annotated[str, measured(metavar="adam|adamw|sgd")] = "adam",
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Measure how far the first optimizer step of each factor moves the output.

    The reference is the step of a dense matrix.

    Columns: one learning rate for all parameters, the rate by each factor's shape
    (`training.optimizer.rates=structure`), and the measured rate (`rates=measured`), by which each of N factors moves
    it an N-th as far. A factor with a value far below 1 hardly learns. With RUN, the run's own network and first
    training batches are measured, in place of single layers on random inputs.

    Args:
        run: Run whose network and first training batches are measured (default: single layers on random inputs).
        shape: Input × output features.
        optimizer: Optimizer whose first step is measured; a run has its own.

    Examples:
        phmrun bench rates --layer "phm n=4" --layer low-rank --shape 512x512
        phmrun bench rates latest
    """
    load_plugins(plugin)
    if run is not None:
        _print_rates_of_run(runs_dir, run, as_json)
        return
    if optimizer not in OPTIMIZERS:
        raise unknown("optimizer", optimizer, OPTIMIZERS, where="--optimizer")
    # A matrix from IN to OUT has OUT rows and IN columns.
    columns, rows = measuring.sides(shape)
    from phmrun.bench.movement import movements

    effects = [
        {"layer": text, **movement._asdict()}
        for text in layer or LAYERS
        for movement in movements(*measuring.name_and_options(text, "--layer"), (rows, columns), optimizer)
    ]
    if as_json:
        console.print_json({"shape": [columns, rows], "optimizer": optimizer, "movements": effects})
        return
    lines = [
        (movement["layer"], movement["factor"], *(f"{movement[name]:.2f}" for name in ("one", "structure", "measured")))
        for movement in effects
    ]
    title = f"How far a step of {optimizer} moves the output, in parts of a dense matrix's, {columns} → {rows}"
    console.print_table(("layer", "factor", *RATES), lines, title=title)


def _print_rates_of_run(runs_dir: Path, name: str, as_json: bool) -> None:
    """Print how far a first step moves a run's outputs.

    JSON keys: run, optimizer, movements (factor, one, structure, measured).

    Raises:
        PhmrunError: (exit 2) The run has no maps but dense ones.
    """
    from phmrun.bench.movement import movements_of_run
    from phmrun.engine.trained_model import open_run
    from phmrun.ledger import Run

    run = Run.find(runs_dir, name)
    config = open_run(run).config
    effects = movements_of_run(config)
    if not effects:
        raise PhmrunError("all matrices of the run are dense: there are no factors to measure", where=run.id)
    optimizer = config.training.optimizer.name
    if as_json:
        movements = [movement._asdict() for movement in effects]
        console.print_json({"run": run.id, "optimizer": optimizer, "movements": movements})
        return
    lines = [(factor, *(f"{value:.2f}" for value in values)) for factor, *values in effects]
    title = (
        f"How far a step of {optimizer} moves the outputs, in parts of a dense matrix's, on first batches of {run.id}"
    )
    console.print_table(("factor", *RATES), lines, title=title)
