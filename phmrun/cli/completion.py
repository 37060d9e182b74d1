"""Completion of names in the shell.

Imports no torch, because the shell waits for the answer. Each completion returns the names that begin with the typed
text.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import typer

from phmrun.registry import EMBEDDINGS, STRUCTURES, TASKS

SQUARE = ("circulant", "symmetric")  # structures of square matrices
SQUARE_MAPS = ("nli",)  # tasks whose usual network has only square maps in its blocks


def tasks(incomplete: str) -> list[str]:
    """Return tasks that begin with the typed text."""
    return _beginning(TASKS.names(), incomplete)


def schemas(incomplete: str) -> list[str]:
    """Return names of JSON Schemas: tasks, and sweep files."""
    return _beginning([*TASKS.names(), "sweep"], incomplete)


def layers(context: typer.Context, incomplete: str) -> list[str]:
    """Return weight structures that begin with the typed text.

    The square structures, circulant and symmetric, are left out if a task other than nli is typed.
    """
    task = _task(context)
    names = [name for name in STRUCTURES.names() if not task or task in SQUARE_MAPS or name not in SQUARE]
    return _beginning(names, incomplete)


def columns(context: typer.Context, incomplete: str) -> list[str]:
    """Return columns of the list of runs, and names of scores.

    A typed minus, which reverses the order, is put before each. Scores are sorted, and come last. There are none if the
    directory of runs does not exist.
    """
    from phmrun.ledger import listing

    folder = _runs_folder(context)
    scores = {score for run in listing.list_runs(folder) for score in run.metrics} if folder.is_dir() else set()
    minus = "-" if incomplete.startswith("-") else ""
    return _beginning([f"{minus}{name}" for name in [*listing.COLUMNS, *sorted(scores)]], incomplete)


def export_formats(incomplete: str) -> list[str]:
    """Return formats of ``phmrun export``."""
    return _beginning(["safetensors", "onnx", "ctranslate2"], incomplete)


def embeddings(incomplete: str) -> list[str]:
    """Return structures of embeddings: weight structures, and embeddings of several matrices."""
    return _beginning([*STRUCTURES.names(), *EMBEDDINGS.names()], incomplete)


def datasets(context: typer.Context, incomplete: str) -> list[str]:
    """Return the built-in corpus and the datasets of the typed task.

    Without a task: all datasets.
    """
    from phmrun.datasets import CATALOGUE

    return _beginning(sorted({"builtin", *CATALOGUE.names(_task(context))}), incomplete)


def presets(context: typer.Context, incomplete: str) -> list[str]:
    """Return model presets of the typed task.

    An empty list without a task.
    """
    schema = _schema(context)
    return _beginning(list(schema.model_fields["model"].annotation.presets) if schema else [], incomplete)


def networks(context: typer.Context, incomplete: str) -> list[str]:
    """Return networks of the typed task.

    An empty list without a task, or if the task has only one network.
    """
    from phmrun.config.names import registered_names

    schema = _schema(context)
    field = schema.model_fields["model"].annotation.model_fields.get("network") if schema else None
    return _beginning(list(registered_names(field)) if field else [], incomplete)


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Return configuration keys of the typed task, with "=" at the end.

    An empty list without a task.
    """
    from phmrun.config import leaves

    schema = _schema(context)
    return _beginning([f"{key}=" for key, _ in leaves(schema())] if schema else [], incomplete)


def _schema(context: typer.Context) -> Any:
    """Return the configuration class of the typed task.

    None without a task.
    """
    task = _task(context)
    return TASKS.get(task).load("schema") if task else None


def _task(context: typer.Context) -> str | None:
    """Return the task among the words typed so far, or None.

    The parsed argument ``task`` goes first, if it is a task's name. Arguments after an incomplete option are still
    unparsed, and are searched, too.
    """
    names = TASKS.names()
    return next((word for word in (context.params.get("task"), *context.args) if word in names), None)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Return run ids in the directory of runs.

    They are sorted. The directory is that of ``--runs-dir``, else ``PHMRUN_RUNS``, else ``runs``. An empty list if the
    directory does not exist.
    """
    folder = _runs_folder(context)
    if not folder.is_dir():
        return []
    return _beginning(sorted(entry.parent.name for entry in folder.glob("*/config.yaml")), incomplete)


def configs(incomplete: str) -> list[str]:
    """Return names of packaged configuration files."""
    from phmrun.config import packaged_names

    return _beginning(packaged_names(), incomplete)


def papers(incomplete: str) -> list[str]:
    """Return papers with packaged tables, then "all".

    Only folder names are read.
    """
    folders = (files("phmrun.configs") / "papers").iterdir()
    return _beginning([*sorted(folder.name for folder in folders if folder.is_dir()), "all"], incomplete)


def _runs_folder(context: typer.Context) -> Path:
    """Return the directory of ``--runs-dir``, else ``PHMRUN_RUNS``, else ``runs``."""
    from phmrun.ledger.directory import directory_of_runs

    return directory_of_runs(context.params.get("runs_dir"))


def _beginning(names: list[str], start: str) -> list[str]:
    """Return the names that begin with ``start``, in their order."""
    return [name for name in names if name.startswith(start)]
