"""Options of the verbs that use a trained run: which weights, decoded how, where."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from phmrun.cli.options import CONFIG, HARDWARE, RUNS, Plugin, settings

of_decoding = partial(typer.Option, rich_help_panel="Decoding")
Checkpoint = Annotated[
    str | None, typer.Option(help="best, last, or a file (default: what training scored).", rich_help_panel=RUNS)
]
Average = Annotated[
    int | None,
    typer.Option(min=0, help="Mean of so many last checkpoints; 0: none (default: the run's).", rich_help_panel=RUNS),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …", rich_help_panel=HARDWARE)]


@dataclass(frozen=True)
class DecodingOptions:
    """How a trained run is used; an option left out is as the run's configuration has it."""

    beam: Annotated[
        int | None, of_decoding(min=1, help="Hypotheses kept per sentence; 1: greedy (default: the run's).")
    ] = None
    alpha: Annotated[float | None, of_decoding(min=0, help="Strength of the length penalty (default: the run's).")] = (
        None
    )
    engine: Annotated[str | None, of_decoding(help="What decodes: torch, or ctranslate2 (default: the run's).")] = None
    quantization: Annotated[
        str | None,
        of_decoding(
            help="Of the engine ctranslate2: none, int8, int8_float32, bfloat16, float16 (default: the run's)."
        ),
    ] = None
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="decoding.KEY=VALUE",
            help="Any key of the task's decoding section (`phmrun schema TASK`); may be repeated.",
            rich_help_panel=CONFIG,
        ),
    ] = None
    checkpoint: Checkpoint = None
    average: Average = None
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Sentences at a time (default: the run's).", rich_help_panel=HARDWARE)
    ] = None
    device: Device = "auto"
    plugin: Plugin = None

    def decoding(self, **more: Any) -> dict[str, Any]:
        """The keys of the decoding section that were given; ``more`` are a verb's own. ``--set`` may name no other."""
        given = {key: value for key, value, _ in settings(self.set_ or [], "decoding")}
        flags = {name: getattr(self, name) for name in ("beam", "alpha", "engine", "quantization")} | more
        return {**given, **{name: value for name, value in flags.items() if value is not None}}
