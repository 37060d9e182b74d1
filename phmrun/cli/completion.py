"""Completion of names in the shell.

Imports no torch, because the shell waits for the answer. Typer keeps the names that begin with the typed text.
"""

from typing import Any, get_args

import typer

from phmrun.registry import EMBEDDINGS, STRUCTURES, TASKS

tasks, layers = TASKS.names, STRUCTURES.names


def embeddings() -> list[str]:
    """Return the names of structures and embeddings."""
    return [*STRUCTURES.names(), *EMBEDDINGS.names()]


def _task(context: typer.Context) -> str | None:
    """Return the task among the words typed so far, or None.

    Arguments after an incomplete option are still unparsed, and are searched, too.
    """
    names = TASKS.names()
    return next((word for word in (context.params.get("task"), *context.args) if word in names), None)


def datasets(context: typer.Context) -> list[str]:
    """Return the built-in corpus and the datasets of the typed task; without a task: all datasets."""
    from phmrun.datasets import CATALOGUE

    return sorted({"builtin", *CATALOGUE.names(_task(context))})


def presets(context: typer.Context) -> list[str]:
    """Return the presets of the typed task."""
    task = _task(context)
    schema: Any = TASKS.get(task).load("schema") if task else None
    section = getattr(schema(), "model", None) if schema else None
    field = type(section).model_fields.get("preset") if section else None
    return list(get_args(field.annotation)) if field else []


def keys(context: typer.Context) -> list[str]:
    """Return configuration keys of the typed task, with "=" at the end."""
    from phmrun.config import leaves

    task = _task(context)
    schema: Any = TASKS.get(task).load("schema") if task else None
    return [f"{key}=" for key, _ in leaves(schema())] if schema else []


def runs(context: typer.Context) -> list[str]:
    """Return run ids in the directory of ``--runs-dir``, else ``PHMRUN_RUNS``, else ``runs``."""
    from phmrun.ledger.directory import directory_of_runs

    configs = directory_of_runs(context.params.get("runs_dir")).glob("*/config.yaml")
    return sorted(config.parent.name for config in configs)


def configs(context: typer.Context) -> list[str]:
    """Return names of packaged configuration files; for ``phmrun sweep``, of sweeps."""
    from phmrun.config import SWEEPS, packaged_names

    return [name for name in packaged_names() if context.info_name != "sweep" or name.startswith(SWEEPS)]
