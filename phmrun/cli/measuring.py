"""Options and texts that the verbs of ``phmrun bench`` share."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import HARDWARE
from phmrun.errors import PhmrunError, counted

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


def listed(values: Sequence[str] | None) -> list[str]:
    """Return the non-empty entries of comma-separated lists; [] for None."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def numbers(values: Sequence[str] | None, flag: str) -> list[int]:
    """Return the positive integers in comma-separated lists; [] for None.

    Raises:
        PhmrunError: An entry is anything else; ``flag`` names the option.
    """
    return [number(part, flag) for part in listed(values)]


def number(text: str, flag: str) -> int:
    """Return a positive integer.

    Raises:
        PhmrunError: The text is anything else; ``flag`` names the option.
    """
    if not text.isdecimal() or int(text) < 1:
        raise PhmrunError(f"{text!r} is not a positive whole number", where=flag)
    return int(text)


def name_and_options(text: str, flag: str) -> tuple[str, dict[str, Any]]:
    """Return name and options of "phm n=8 variant=released".

    Values are read as YAML.

    Raises:
        PhmrunError: An option has no value, or it is not YAML.
    """
    from phmrun.documents import parse_yaml

    name, *options = text.split() or [""]
    if not name:
        raise PhmrunError("no structure is named", where=flag, hint=f"Write it as in {flag} 'phm n=8'.")
    values = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator:
            hint = f"Write it as in {flag} 'phm n=8'."
            raise PhmrunError(f"{option!r} is not an option", where=flag, hint=hint)
        values[key] = parse_yaml(value, key)
    return name, values


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
