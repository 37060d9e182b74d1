"""Options of the verbs that use a trained run: weights, decoding, device."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import typer

from phmrun.cli.options import CONFIG, HARDWARE, RUNS, Plugin, settings

of_decoding = partial(typer.Option, rich_help_panel="Decoding")
Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="Weights: best, last, or a checkpoint file (default: those that training scored).", rich_help_panel=RUNS
    ),
]
Average = Annotated[
    int | None,
    typer.Option(
        min=0, help="Number of last checkpoints to average; 0: none (default: the run's).", rich_help_panel=RUNS
    ),
]
Device = Annotated[
    str, typer.Option(help="Device: auto (a GPU if there is one), cpu, cuda, cuda:1 …", rich_help_panel=HARDWARE)
]


@dataclass(frozen=True)
class DecodingOptions:
    """Options for using a trained run.

    The defaults are those of the run's configuration.

    Attributes:
        beam: Beam size, in hypotheses per sentence; 1: greedy (default: the run's).
        alpha: Exponent α of the length penalty (default: the run's).
        engine: Decoder: torch or ctranslate2 (default: the run's).
        quantization: Quantization of --engine ctranslate2: none, int8, int8_float32, bfloat16, float16; with torch,
            bfloat16 or none (default: the run's).
        set_: Any key of the configuration's decoding section (`phmrun schema TASK`); may be repeated.
        batch_size: Sentences per batch (default: the run's).
    """

    beam: Annotated[int | None, of_decoding(min=1)] = None
    alpha: Annotated[float | None, of_decoding(min=0)] = None
    engine: Annotated[str | None, of_decoding()] = None
    quantization: Annotated[str | None, of_decoding()] = None
    set_: Annotated[list[str] | None, typer.Option("--set", metavar="decoding.KEY=VALUE", rich_help_panel=CONFIG)] = (
        None
    )
    checkpoint: Checkpoint = None
    average: Average = None
    batch_size: Annotated[int | None, typer.Option(min=1, rich_help_panel=HARDWARE)] = None
    device: Device = "auto"
    plugin: Plugin = None

    def decoding(self, **more: Any) -> dict[str, Any]:
        """Return the keys of the decoding section that the user set.

        ``more`` are options of one verb only. Options and ``more`` override ``--set``; those that are None are left
        out.

        Raises:
            ConfigError: ``--set`` names a key outside the decoding section.
        """
        from_set = {key: value for key, value, _ in settings(self.set_ or [], "decoding")}
        flags = {name: getattr(self, name) for name in ("beam", "alpha", "engine", "quantization")} | more
        return {**from_set, **{name: value for name, value in flags.items() if value is not None}}
