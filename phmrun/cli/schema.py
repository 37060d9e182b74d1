"""``phmrun schema``: JSON Schema of configuration files and sweep files, for editors."""

import json
from typing import Annotated

import typer

from phmrun.cli import completion
from phmrun.cli.options import Plugin
from phmrun.errors import unknown
from phmrun.progress import waiting
from phmrun.registry import EMBEDDINGS, STRUCTURES, TASKS, load_plugins

SWEEP = "sweep"


def schema(
    task: Annotated[str, typer.Argument(autocompletion=completion.schemas)],
    model: str | None = None,
    plugin: Plugin = None,
) -> None:
    """Print the JSON Schema of a task's configuration or of sweep files: keys, types, defaults.

    Args:
        task: Task, or sweep.
        model: Network whose own options are included (default: the task's).

    Example:
        phmrun schema nmt > nmt.schema.json, and in the first line of a YAML file:
        # yaml-language-server: $schema=nmt.schema.json
        phmrun schema sweep describes the files of `phmrun sweep`.
    """
    load_plugins(plugin)
    if task == SWEEP:
        from phmrun.sweeps.file import json_schema as sweep_schema

        print(json.dumps(sweep_schema(), indent=2, ensure_ascii=False))
        return
    if task not in TASKS:
        raise unknown("schema", task, [*TASKS.names(), SWEEP])
    with waiting("preparing"):
        configuration = TASKS.get(task).load("schema")
        from phmrun.config import Source, json_schema
        from phmrun.config.layering import with_network_options
        from phmrun.layers import options_of

        if model:
            configuration = with_network_options(configuration, [Source("--model", {"model": {"network": model}})])
        structures = {name: options_of(name) for name in STRUCTURES.names()}
        embeddings = {name: options_of(name, table=True) for name in EMBEDDINGS.names()}
    print(json.dumps(json_schema(configuration, structures, embeddings), indent=2, ensure_ascii=False, default=str))
