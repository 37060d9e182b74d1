"""Completion of names in the shell.

Imports no torch, because the shell waits for the answer. A completion returns the names that begin with the typed text.
"""

from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

from phmrun.registry import EMBEDDINGS, STRUCTURES, TASKS

SQUARE = ("circulant", "symmetric")  # structures of square matrices, left out unless the task has square maps only
Completion = Callable[[typer.Context, str], list[str]]


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> Completion:
    """Return the completion of names, which may depend on the words typed so far."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        """Return the names that begin with the typed text."""
        return [name for name in names(context) if name.startswith(incomplete)]

    return complete


def _task(context: typer.Context) -> str | None:
    """Return the task among the words typed so far, or None.

    Arguments after an incomplete option are still unparsed, and are searched, too.
    """
    names = TASKS.names()
    return next((word for word in (context.params.get("task"), *context.args) if word in names), None)


def _schema(context: typer.Context) -> Any:
    """Return the configuration class of the typed task, or None."""
    task = _task(context)
    return TASKS.get(task).load("schema") if task else None


def _layers(context: typer.Context) -> list[str]:
    """Return weight structures; those of square matrices are left out if a task other than nli is typed."""
    return [name for name in STRUCTURES.names() if _task(context) in (None, "nli") or name not in SQUARE]


def _datasets(context: typer.Context) -> list[str]:
    """Return the built-in corpus and the datasets of the typed task; without a task: all datasets."""
    from phmrun.datasets import CATALOGUE

    return sorted({"builtin", *CATALOGUE.names(_task(context))})


def _presets(context: typer.Context) -> list[str]:
    """Return model presets of the typed task."""
    schema = _schema(context)
    return list(schema.model_fields["model"].annotation.presets) if schema else []


def _networks(context: typer.Context) -> list[str]:
    """Return networks of the typed task; none if it has only one network."""
    from phmrun.config.names import registered_names

    schema = _schema(context)
    field = schema.model_fields["model"].annotation.model_fields.get("network") if schema else None
    return list(registered_names(field)) if field else []


def _keys(context: typer.Context) -> list[str]:
    """Return configuration keys of the typed task, with "=" at the end."""
    from phmrun.config import leaves

    schema = _schema(context)
    return [f"{key}=" for key, _ in leaves(schema())] if schema else []


def _runs(context: typer.Context) -> list[str]:
    """Return run ids in the directory of ``--runs-dir``, else ``PHMRUN_RUNS``, else ``runs``."""
    from phmrun.ledger.directory import directory_of_runs

    return sorted(
        entry.parent.name for entry in directory_of_runs(context.params.get("runs_dir")).glob("*/config.yaml")
    )


def _configs(_: typer.Context) -> list[str]:
    """Return names of packaged configuration files."""
    from phmrun.config import packaged_names

    return packaged_names()


def _papers(_: typer.Context) -> list[str]:
    """Return papers with packaged tables, then "all"; only folder names are read."""
    folders = Path(str(files("phmrun.configs") / "papers")).iterdir()
    return [*sorted(folder.name for folder in folders if folder.is_dir()), "all"]


tasks = _completing(lambda _: TASKS.names())
schemas = _completing(lambda _: [*TASKS.names(), "sweep"])
layers = _completing(_layers)
embeddings = _completing(lambda _: [*STRUCTURES.names(), *EMBEDDINGS.names()])
datasets = _completing(_datasets)
presets = _completing(_presets)
networks = _completing(_networks)
keys = _completing(_keys)
runs = _completing(_runs)
configs = _completing(_configs)
papers = _completing(_papers)
export_formats = _completing(lambda _: ["safetensors", "onnx", "ctranslate2"])
