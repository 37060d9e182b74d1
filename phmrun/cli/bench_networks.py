"""``phmrun bench networks``: whole Transformers of every structure against the dense one."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Device
from phmrun.cli.measuring import (
    MEASURED,
    Repeats,
    Threads,
    duration,
    listed,
    name_and_options,
    numbers,
    prepare_process,
    print_machine,
)
from phmrun.cli.options import Json, Plugin
from phmrun.errors import PhmrunError
from phmrun.experiments import resolve_request
from phmrun.registry import STRUCTURES, load_plugins

if TYPE_CHECKING:
    from phmrun.bench.networks import Measured

EPILOG = """Examples:

phmrun bench networks --preset small --preset base --threads 1

phmrun bench networks --layer "phm n=4" --layer "monarch budget=1/8" --length 40"""


def bench_networks(
    *,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Sizes of the task nmt; may be repeated (default: small).", rich_help_panel=MEASURED
        ),
    ] = None,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Structure of the blocks' matrices, with options if need be: 'phm n=8'; may be repeated (default: "
            "all).",
            rich_help_panel=MEASURED,
            autocompletion=completion.layers,
        ),
    ] = None,
    vocabulary: Annotated[int, typer.Option(min=5, help="Tokens that there are.", rich_help_panel=MEASURED)] = 8000,
    length: Annotated[
        int, typer.Option(min=2, help="Tokens of every sentence, of both sides.", rich_help_panel=MEASURED)
    ] = 24,
    tokens: Annotated[
        int, typer.Option(min=1, help="Target tokens of a training step.", rich_help_panel=MEASURED)
    ] = 2048,
    batch_size: Annotated[
        list[str] | None,
        typer.Option(metavar="N,…", help="Sentences decoded at a time (default: 1,64).", rich_help_panel=MEASURED),
    ] = None,
    repeats: Repeats = 5,
    plugin: Plugin = None,
    threads: Threads = 0,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Measures Transformers with random weights: an optimizer step, and beam search with a beam of 5.

    Figures beside the time of the dense network are ratios to it: below 1 is faster. Multiplications are those of the
    weight matrices, for one token.
    """
    load_plugins(plugin)
    wanted = [name_and_options(text, "--layer") for text in layer or STRUCTURES.names()]
    from phmrun.bench import machine, networks
    from phmrun.engine.trained_model import choose_device

    prepare_process(threads)
    place = choose_device(device)
    sizes = tuple(numbers(batch_size, "--batch-size")) or networks.Amount.sentences
    amount = networks.Amount(vocabulary, length, tokens, sizes, repeats)
    plans = [(name, _configs(name, wanted, vocabulary)) for name in listed(preset) or ["small"]]
    machine.warn_if_busy()
    facts = {**machine.facts(), "device": place}
    measured = [networks.measure(name, configs, amount, device=place) for name, configs in plans]
    if as_json:
        console.print_json({"machine": facts, "rows": [row.to_json() for rows in measured for row in rows]})
        return
    print_machine(facts)
    for rows in measured:
        _print_preset(rows, amount.tokens)


def _configs(preset: str, wanted: list[tuple[str, dict[str, Any]]], vocabulary: int) -> dict[str, Any]:
    """By structure and options the configs of all networks that can be built, the dense one first.

    Raises:
        PhmrunError: There is no such preset, structure or option, or none fits the sizes.
    """
    from phmrun.engine.counting import count_parameters

    configs: dict[str, Any] = {}
    left_out = []
    for name, options in [("dense", {}), *wanted]:
        label = " ".join([name, *(f"{key}={value}" for key, value in options.items())])
        settings = [("model.preset", preset, "--preset"), ("layer.structure", name, "--layer")]
        settings += [(f"layer.{key}", value, "--layer") for key, value in options.items()]
        config = resolve_request("nmt", settings).resolved.config
        try:
            count_parameters(config, (vocabulary, vocabulary))
        except PhmrunError as error:
            left_out.append(f"{preset}, {label}: {error.what}")
            continue
        configs[label] = config
    for reason in left_out:
        console.stderr().print(f"left out: {reason}", markup=False, soft_wrap=True)
    if wanted and len(left_out) == len(wanted):
        raise PhmrunError(f"no layer fits: {left_out[-1]}", where="--layer")
    return configs


def _print_preset(rows: list["Measured"], tokens: int) -> None:
    """One line per network; the dense one's has its times."""
    dense = rows[0]
    lines = [
        (
            row.layer,
            f"{row.parameters:,}",
            f"{row.multiplications / 1e6:,.1f} M",
            *(duration(row.seconds[name]) if row is dense else f"{row.ratios[name]:.2f}" for name in row.seconds),
        )
        for row in rows
    ]
    heads = [name if name.startswith("train") else f"beam 5, {name}" for name in dense.seconds]
    columns = ("layer", "parameters", "multiplications", *heads)
    console.print_table(columns, lines, title=f"\n{dense.preset}: a step of {tokens:,} tokens, and decoding")
