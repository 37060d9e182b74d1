"""``phmrun schema``: JSON Schema of configuration files and sweep files, for editors."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from phmrun.cli import completion
from phmrun.cli.options import Plugin
from phmrun.errors import PhmrunError, unknown
from phmrun.progress import waiting
from phmrun.registry import TASKS, load_plugins
from phmrun.task import Format

SWEEP = "sweep"


def schema(
    task: Annotated[str, typer.Argument(autocompletion=completion.tasks)],
    model: str | None = None,
    files: Annotated[bool, typer.Option("--files")] = False,
    plugin: Plugin = None,
) -> None:
    """Print the JSON Schema of a task's configuration or of sweep files: keys, types, defaults.

    Args:
        task: Task, or sweep.
        files: Print a valid sample of each file format that the task reads instead. Comments and the next command are
            on standard error.
        model: Network whose own options are included (default: the task's).

    Example:
        phmrun schema nmt > nmt.schema.json, and in the first line of a YAML file:
        # yaml-language-server: $schema=nmt.schema.json
        phmrun schema sweep describes the files of `phmrun sweep`.
        phmrun schema nli --files
    """
    load_plugins(plugin)
    if task == SWEEP and files:
        hint = "`phmrun schema sweep` prints the keys of its file."
        raise PhmrunError("a sweep reads the files of its task", where="--files", hint=hint)
    if task == SWEEP:
        from phmrun.sweeps.file import json_schema as sweep_schema

        print(json.dumps(sweep_schema(), indent=2, ensure_ascii=False))
        return
    if task not in TASKS:
        raise unknown("schema", task, [*TASKS.names(), SWEEP])
    if files:
        _print_formats(task, plugin or [])
        return
    with waiting("preparing"):
        configuration = TASKS.get(task).load("schema")
        from phmrun.config import Source, json_schema
        from phmrun.config.layering import registry_of_networks, with_network_options

        if model:
            registry = registry_of_networks(configuration)
            if registry is None or model not in registry:
                raise unknown("network", model, registry.names() if registry else (), where="--model")
            configuration = with_network_options(configuration, [Source("--model", {"model": {"network": model}})])
    print(json.dumps(json_schema(configuration), indent=2, ensure_ascii=False, default=str))


def _print_formats(task: str, plugins: Sequence[Path]) -> None:
    """Print a valid sample of each file format that a task reads.

    Comments go to standard error, so that a sample can be redirected into a file.

    Raises:
        PhmrunError: The task declares no format.
    """
    samples: tuple[Format, ...] = TASKS.get(task).formats
    if not samples:
        raise PhmrunError(f"the task {task!r} declares no file formats")
    for sample in samples:
        typer.echo(f"# {sample.name}: {sample.says}", err=True)
        for name, text in sample.files.items():
            typer.echo(f"# {name}", err=True)
            typer.echo(text, nl=False)
        typer.echo(err=True)
    options = []
    for split in ("train", "dev", "test"):
        for name in samples[0].files:
            side, file = name.partition(".")[2], name.replace("train", split, 1)
            key = f"--set data.{split}_{side}=" if side in ("source", "target") else f"--{split} "
            options.append(f"{key}{file}")
    options += [f"--plugin {shlex.quote(str(path))}" for path in plugins]
    typer.echo(f"# next: phmrun train {task} {' '.join(options)}", err=True)
    typer.echo("# no validation files: --set data.hold_out=0.1 takes a tenth of the training data", err=True)
