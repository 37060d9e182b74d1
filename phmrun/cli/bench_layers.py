"""``phmrun bench layers``: how fast structured modules are, against torch's dense ones."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import (
    MEASURED,
    Repeats,
    Threads,
    duration,
    listed,
    mebibytes,
    name_and_options,
    number,
    numbers,
    prepare_process,
    print_machine,
    sides,
)
from phmrun.cli.options import Json, Plugin
from phmrun.errors import PhmrunError, unknown
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.layers import Measured
    from phmrun.bench.lookup_memory import LookupMemory

MODULES = ("linear", "lstm", "embedding", "output", "biaffine")
ALL = "all"
PRECISIONS = ("float32", "bfloat16")
EPILOG = """Examples:

phmrun bench layers --layer phm --n 4,8 --shape 512x2048 --tokens 1,64

phmrun bench layers --module lstm --layer "phm n=5 variant=released" --layer dense --json

phmrun bench layers --module all --n 4,8"""


def bench_layers(
    *,
    module: Annotated[
        list[str] | None,
        typer.Option(
            metavar="|".join((*MODULES, ALL)),
            help="What the maps are part of; may be repeated (default: linear).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
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
            help="Input and output features; of an embedding rows and width, of a biaffine form features and labels "
            "(default of linear: 512x512,512x2048,2048x512).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKENS,…",
            help="Input vectors per call of inference; of lstm and biaffine SENTENCESxLENGTH (default of linear: "
            "1,8,64,4096).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    training_tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOKENS,…",
            help="The same per training step (default of linear: 4096).",
            rich_help_panel=MEASURED,
        ),
    ] = None,
    third_party: Annotated[
        bool,
        typer.Option(
            help="Beside ours, the layers of adapters and tensorly-torch, if installed.", rich_help_panel=MEASURED
        ),
    ] = True,
    precision: Annotated[
        str,
        typer.Option(
            metavar="|".join(PRECISIONS),
            help="bfloat16: training under autocast, inference with such weights.",
            rich_help_panel=MEASURED,
        ),
    ] = PRECISIONS[0],
    rows: Annotated[
        int,
        typer.Option(
            min=0,
            help="Vectors in the large tables whose lookups' memory --module embedding shows; 0: none.",
            rich_help_panel=MEASURED,
        ),
    ] = 10_000_000,
    repeats: Repeats = 15,
    plugin: Plugin = None,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measures modules against torch's dense ones: inference with weights in the cache (hot) or not (cold), training.

    Inference is shown in each form that a module has: dense (W built once), factored (W never built), unfolded (as
    training leaves it: W built at each call); 'auto' is what training has and what inference takes for so many tokens.
    Figures beside the time of the torch module are ratios to it: below 1 is faster.
    """
    load_plugins(plugin)
    modules = _modules(module or ["linear"])
    structures = [name_and_options(text, "--layer") for text in layer or STRUCTURES.names()]
    orders, shapes = numbers(n, "--n"), [sides(text) for text in listed(shape)]
    batches = [_batch(text, "--tokens") for text in listed(tokens)]
    training = [_batch(text, "--training-tokens") for text in listed(training_tokens)]
    if len(modules) > 1 and (shapes or batches or training):
        raise PhmrunError("sizes can be given for one module at a time", where="--module", valid=MODULES)
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS, where="--precision")
    import torch

    from phmrun.bench import layers, lookup_memory, machine
    from phmrun.bench.survey import check_batches, survey
    from phmrun.engine.trained_model import choose_device

    check_batches(modules, batches, "--tokens")
    check_batches(modules, training, "--training-tokens")
    prepare_process(threads)
    place, dtype = choose_device(device), getattr(torch, precision)
    plan = survey(modules, structures, orders=orders, shapes=shapes, dtype=dtype, third_party=third_party, rows=rows)
    for reason in plan.left_out:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": place, "precision": precision}
    memory = list(lookup_memory.lookup_memory(plan.tables, device=place))
    measured = list(
        layers.measure(plan.candidates, batches=batches, training=training, rounds=repeats, device=place, dtype=dtype)
    )
    if as_json:
        report = {"machine": facts, "rows": [row.to_json() for row in measured]}
        console.print_json({**report, "memory": [row.to_json() for row in memory]} if memory else report)
        return
    print_machine(facts)
    for name, group in groupby(measured, key=lambda row: row.module):
        _print_module(name, list(group))
    if memory:
        _print_memory(memory)


def _modules(names: Sequence[str]) -> list[str]:
    """Each module once."""
    for name in names:
        if name not in (*MODULES, ALL):
            raise unknown("module", name, (*MODULES, ALL), where="--module")
    return list(MODULES) if ALL in names else list(dict.fromkeys(names))


def _batch(text: str, flag: str) -> tuple[int, ...]:
    """(640,) from "640", (256, 30) from "256x30"."""
    return tuple(number(part, flag) for part in text.lower().replace("×", "x").split("x"))


def _print_module(name: str, rows: Sequence["Measured"]) -> None:
    """One table per mode; ratios beside the time of the torch module."""
    reference = rows[0].reference
    forms = [form for form in ("dense", "factored", "unfolded") if any(form in row.ratios for row in rows)]
    training = [
        (row.layer, _sizes(row), _per_call(row), duration(row.seconds[reference]), row.ratios[row.auto], row.auto)
        for row in rows
        if row.mode == "training"
    ]
    console.print_table(
        ("layer", "sizes", "batch", reference, "ratio", "form"), training, title=f"\n{name}: training step"
    )
    inference = [
        (
            row.layer,
            _sizes(row),
            _per_call(row),
            row.weights,
            duration(row.seconds[reference]),
            *(row.ratios.get(form) for form in forms),
            row.auto,
        )
        for row in rows
        if row.mode == "inference"
    ]
    columns = ("layer", "sizes", "batch", "weights", reference, *forms, "auto")
    console.print_table(columns, inference, title=f"\n{name}: inference")


def _print_memory(rows: Sequence["LookupMemory"]) -> None:
    """Tables, their parameters, and what a lookup takes."""
    lines = [
        (row.layer, f"{row.rows:,} × {row.width}", *map(mebibytes, (row.table, row.parameters, row.lookup)))
        for row in rows
    ]
    columns = ("layer", "table", "dense", "parameters", "lookup, at its peak")
    console.print_table(columns, lines, title=f"\nembedding: a lookup of {rows[0].tokens} vectors")


def _sizes(row: "Measured") -> str:
    return f"{row.in_features} → {row.out_features}"


def _per_call(row: "Measured") -> str:
    return " × ".join(f"{side:,}" for side in row.batch)
