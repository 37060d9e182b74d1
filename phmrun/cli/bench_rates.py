"""``phmrun bench rates``: what one step of an optimizer does through each factor of a layer."""

from typing import Annotated

import typer

from phmrun.cli import completion, console
from phmrun.cli.measuring import MEASURED, name_and_options, sides
from phmrun.cli.options import Json, Plugin
from phmrun.errors import unknown
from phmrun.registry import load_plugins

OPTIMIZERS = ("adam", "adamw", "sgd")
LAYERS = ("phm n=2", "phm n=4", "phm n=8", "phm n=16", "kronecker rank=16", "low-rank", "monarch", "blast")
EPILOG = """Example:

phmrun bench rates --layer "phm n=4" --layer low-rank --shape 512x512"""


def bench_rates(
    *,
    layer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="'NAME k=v …'",
            help=f"A layer with options; may be repeated (default: {', '.join(LAYERS)}).",
            autocompletion=completion.layers,
            rich_help_panel=MEASURED,
        ),
    ] = None,
    shape: Annotated[
        str, typer.Option(metavar="INxOUT", help="Sizes of the input and the output.", rich_help_panel=MEASURED)
    ] = "512x512",
    optimizer: Annotated[
        str, typer.Option(metavar="adam|adamw|sgd", help="Whose first step.", rich_help_panel=MEASURED)
    ] = "adam",
    plugin: Plugin = None,
    as_json: Json = False,
) -> None:
    """Shows how far a step through each factor moves the output, beside a dense matrix's step.

    Once by one learning rate for all parameters, once by the rate of each factor's shape
    (`training.optimizer.rates=structure`). A factor far below 1 hardly learns.
    """
    load_plugins(plugin)
    if optimizer not in OPTIMIZERS:
        raise unknown("optimizer", optimizer, OPTIMIZERS, where="--optimizer")
    columns, rows = sides(shape)
    from phmrun.bench.movement import movements

    found = [
        {"layer": text, **each._asdict()}
        for text in layer or LAYERS
        for each in movements(*name_and_options(text, "--layer"), (rows, columns), optimizer)
    ]
    if as_json:
        console.print_json({"shape": [columns, rows], "optimizer": optimizer, "movements": found})
        return
    lines = [(each["layer"], each["factor"], f"{each['one']:.2f}", f"{each['structure']:.2f}") for each in found]
    title = f"How far a step of {optimizer} moves the output, in parts of a dense matrix's, {columns} → {rows}"
    console.print_table(("layer", "factor", "rates=one", "rates=structure"), lines, title=title)
