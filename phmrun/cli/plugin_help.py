"""Names and options of plug-ins in ``--help`` of a verb: ``phmrun train sva --plugin FILE --help``."""

import inspect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from phmrun.cli.options import FLAGS
from phmrun.config import Section
from phmrun.config.layering import foreign_options
from phmrun.config.names import Registered
from phmrun.registry import DATASETS, FREEZE, STRUCTURES, TASKS, Registry, load_plugins
from phmrun.section import is_section

Row = tuple[str, str, str]
"""Option, its value, and help."""
PANEL = "Plug-ins"


def add_plugin_panel(command: Any, words: Sequence[str]) -> None:
    """Add a panel of plug-ins to a command's help, in place.

    It has their names and options. Nothing changes if the words of the command line lack ``--help``, ``--plugin FILE``
    or the name of a task. With ``--help``, the plug-ins are imported.

    Raises:
        PhmrunError: (exit 2) A plug-in cannot be imported.
    """
    if not {"-h", "--help"} & set(words):
        return
    pairs = zip(words, [*words[1:], ""], strict=True)
    paths = [after if word == "--plugin" else word[9:] for word, after in pairs if word.partition("=")[0] == "--plugin"]
    load_plugins(Path(path) for path in paths)
    task = next((word for word in words if word in TASKS), None)
    command.params += _parameters(_rows(task)) if paths and task else []


def _parameters(rows: Iterable[Row]) -> list[Any]:
    """Return rows as parameters of a command, in order.

    Only their help is used.
    """

    def shown(**values: Any) -> None:
        """Do nothing; only the signature is read."""

    parameters = []
    for number, (option, value, text) in enumerate(rows):
        about = typer.Option(option, metavar=value, help=escape(text), rich_help_panel=PANEL, show_default=False)
        kind = Annotated[str | None, about]
        parameters.append(
            inspect.Parameter(f"plugin_{number}", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        )
    shown.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    shown.__annotations__ = {}
    alone = typer.Typer(add_completion=False)
    alone.command()(shown)
    command: Any = typer.main.get_command(alone)
    return list(command.params[: len(parameters)])  # without --help


def _rows(task: str) -> Iterator[Row]:
    """Yield the rows of a task's plug-ins: (option, value, text).

    There is one for each name of a plug-in that the task can use, followed by one for each of its own options. Datasets
    of other tasks are left out, as are options that all networks have.
    """
    from phmrun.config.options import options_of

    schema = TASKS.get(task).load("schema")
    model: Any = schema.model_fields["model"].annotation
    networks, usual = dict(foreign_options(schema)), {FREEZE, *model.model_fields}
    flags = {flag.key: flag.option for flag in FLAGS}
    for key, registry in dict(_registered_keys(schema)).items():
        section = key.rpartition(".")[0]
        for name in registry.foreign_names():
            value = registry.get(name)
            if registry is DATASETS and task not in value["tasks"]:
                continue
            about = value["summary"] if registry is DATASETS else (value.__doc__ or "").strip().partition("\n")[0]
            named = (flags[key], name) if key in flags else ("--set", f"{key}={name}")
            yield *named, f"{registry.kind.capitalize()}: {about}"
            keys = networks.get(name) if key == "model.network" else None
            keys = options_of(name) if registry is STRUCTURES else keys
            for option, field in keys.model_fields.items() if keys else ():
                if option not in usual:
                    text = f"{name}: {field.description} (default: {field.get_default()})"
                    yield "--set", f"{section}.{option}=VALUE", text


def _registered_keys(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Registry]]:
    """Yield dotted keys whose values are names, with their registries.

    Embedding and output are left out, because structures are valid there as in ``layer``.
    """
    for name, field in section.model_fields.items():
        key, kind = f"{prefix}{name}", field.annotation
        if key == "layer":
            yield "layer.structure", STRUCTURES
        elif is_section(kind):
            yield from _registered_keys(kind, f"{key}.")
        elif key == "data.name":
            yield key, DATASETS
        yield from ((key, mark.registry) for mark in field.metadata if isinstance(mark, Registered))
