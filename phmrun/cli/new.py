"""``phmrun new``: a plug-in file of a new structure, task, network or metric, from a working example."""

import importlib.util
import keyword
import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import typer

from phmrun.cli import console
from phmrun.errors import PhmrunError
from phmrun.files import write_text
from phmrun.registry import METRICS, STRUCTURES, TASKS, Registry, networks

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


TRIED: dict[str, tuple[Registry, str]] = {
    "structure": (STRUCTURES, "phmrun layers {name} --plugin {file}"),
    "network": (networks("sva"), "phmrun train sva --model {name} --max-steps 20 --plugin {file}"),
    "metric": (METRICS, "phmrun train sva --max-steps 20 --plugin {file}"),
    "task": (TASKS, "phmrun schema {name} --files --plugin {file}"),
}
"""Registry of each kind, and the command that tries a new part."""


def new(
    kind: Annotated[Literal["structure", "task", "network", "metric"], typer.Argument()],
    name: Annotated[str, typer.Argument()],
) -> None:
    """Write a plug-in file with a new structure, task, network or metric: a working example to change.

    A taken name or an existing file is an error. The path is printed on standard output, the next command on standard
    error.

    Args:
        kind: Kind of part.
        name: Name: lower-case letters, digits, hyphens.

    Examples:
        phmrun new structure tiled
        phmrun new task reviews
    """
    registry, command = TRIED[kind]
    module = name.replace("-", "_")
    if not _NAME.fullmatch(name) or keyword.iskeyword(module):
        raise PhmrunError(f"{name!r} is no valid name", valid=["lower-case letters, digits and hyphens: my-structure"])
    path = Path(f"{module}.py")
    if path.exists():
        raise PhmrunError(f"the file exists: {path}", hint="Remove it, or choose another name.")
    if name in registry:
        raise PhmrunError(f"there is already a {kind} named {name!r}", hint="Choose another name.")
    if importlib.util.find_spec(module):
        raise PhmrunError(f"{path} would hide the module {module}", hint="Choose another name.")
    write_text(path, _renamed(kind, module))
    console.print_line(str(path))
    console.print_aside(f"Next: {command.format(name=name, file=path)}")


def _renamed(kind: str, module: str) -> str:
    """Return the example of a kind, with the names that belong to a module's."""
    text = (files("phmrun") / "examples" / f"my_{kind}.py").read_text(encoding="utf-8")
    words, example = module.split("_"), ["my", kind]
    for joined in ("-".join, "_".join, lambda parts: "".join(part.capitalize() for part in parts)):
        text = text.replace(joined(example), joined(words))
    text = text.replace("_".join(example).upper(), module.upper())
    return text.replace(" ".join(example).capitalize(), " ".join(words).capitalize())
