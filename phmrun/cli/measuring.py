"""Options and texts that the verbs of ``phmrun bench`` have in common."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from phmrun.cli import console
from phmrun.cli.options import HARDWARE
from phmrun.errors import PhmrunError, counted

Texts = list[str] | None
measured = partial(typer.Option, rich_help_panel="What is measured")
Threads = Annotated[
    int, typer.Option(min=0, help="CPU threads for arithmetic; 0: torch's own choice.", rich_help_panel=HARDWARE)
]
Repeats = Annotated[int, measured(min=1, help="Rounds; each measures every candidate once, and medians are shown.")]


def prepare_process(threads: int) -> None:
    """Sets the number of CPU threads, unless it is left to torch, and has memory kept as in training."""
    from phmrun.engine.processes import keep_freed_memory

    keep_freed_memory()
    if threads:
        import torch

        torch.set_num_threads(threads)


def listed(values: Sequence[str] | None) -> list[str]:
    """The parts of comma-separated lists."""
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def numbers(values: Sequence[str] | None, flag: str) -> list[int]:
    """Positive whole numbers from comma-separated lists; an error says which is none."""
    return [number(part, flag) for part in listed(values)]


def number(text: str, flag: str) -> int:
    """A positive whole number, or an error."""
    if not text.isdecimal() or int(text) < 1:
        raise PhmrunError(f"{text!r} is not a positive whole number", where=flag)
    return int(text)


def name_and_options(text: str, flag: str) -> tuple[str, dict[str, Any]]:
    """Name and options from "phm n=8 variant=released"; an error where an option has no value."""
    from phmrun.documents import parse_yaml

    name, *options = text.split()
    given = {}
    for option in options:
        key, separator, value = option.partition("=")
        if not separator:
            hint = f"Write it as in {flag} 'phm n=8'."
            raise PhmrunError(f"{option!r} is not an option", where=flag, hint=hint)
        given[key] = parse_yaml(value, key)
    return name, given


def sides(text: str) -> tuple[int, int]:
    """(in_features, out_features) from "512x2048", or an error."""
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(side.isdecimal() and int(side) for side in parts):
        raise PhmrunError(f"{text!r} is not a shape", where="--shape", hint="Write it as INxOUT: 512x2048.")
    return int(parts[0]), int(parts[1])


def print_machine(machine: dict[str, Any]) -> None:
    """The line above all figures."""
    processor = machine["gpu"] if machine["device"].startswith("cuda") else machine["processor"]
    libraries = [str(machine[name]) for name in ("instruction_set", "blas") if name in machine]
    text = " · ".join([processor, *libraries, counted(machine["threads"], "thread"), f"torch {machine['torch']}"])
    console.stdout().print(text, markup=False, soft_wrap=True)


def duration(seconds: float) -> str:
    """Micro- or milliseconds."""
    return f"{1e6 * seconds:,.1f} µs" if seconds < 1e-3 else f"{1e3 * seconds:,.2f} ms"
