"""Names that the shell completes. No torch is imported: the shell waits for the answer."""

import os
from pathlib import Path
from typing import Any

import typer

from phmrun.registry import EMBEDDINGS, STRUCTURES, TASKS

SQUARE = ("circulant", "symmetric")  # structures of square matrices
SQUARE_MAPS = ("nli",)  # tasks whose usual network has only square maps in its blocks


def tasks(incomplete: str) -> list[str]:
    """Tasks that begin with what has been typed."""
    return _beginning(TASKS.names(), incomplete)


def schemas(incomplete: str) -> list[str]:
    """What has a JSON Schema: tasks, and sweep files."""
    return _beginning([*TASKS.names(), "sweep"], incomplete)


def layers(context: typer.Context, incomplete: str) -> list[str]:
    """Weight structures, those of installed packages included; of a task those that its usual network can have."""
    task = _task(context)
    names = [name for name in STRUCTURES.names() if not task or task in SQUARE_MAPS or name not in SQUARE]
    return _beginning(names, incomplete)


def columns(context: typer.Context, incomplete: str) -> list[str]:
    """Columns of the listing of runs, and scores that runs have; after a minus as well."""
    from phmrun.ledger import listing

    folder = _runs_folder(context)
    scores = {score for run in listing.list_runs(folder) for score in run.metrics} if folder.is_dir() else set()
    minus = "-" if incomplete.startswith("-") else ""
    return _beginning([f"{minus}{name}" for name in [*listing.COLUMNS, *sorted(scores)]], incomplete)


def export_formats(incomplete: str) -> list[str]:
    """What ``phmrun export --format`` writes."""
    return _beginning(["safetensors", "torch-export", "onnx", "ctranslate2"], incomplete)


def embeddings(incomplete: str) -> list[str]:
    """What an embedding can be: one of the structures, or of several matrices."""
    return _beginning([*STRUCTURES.names(), *EMBEDDINGS.names()], incomplete)


def datasets(context: typer.Context, incomplete: str) -> list[str]:
    """The built-in corpus and the datasets of the catalogue; of a task, where one has been typed, its own."""
    from phmrun.datasets import CATALOGUE

    return _beginning(sorted({"builtin", *CATALOGUE.names(_task(context))}), incomplete)


def presets(context: typer.Context, incomplete: str) -> list[str]:
    """Sizes of the model of the task that has been typed."""
    schema = _schema(context)
    return _beginning(list(schema.model_fields["model"].annotation.presets) if schema else [], incomplete)


def networks(context: typer.Context, incomplete: str) -> list[str]:
    """Networks of the task that has been typed."""
    from phmrun.config.names import registered_names

    schema = _schema(context)
    field = schema.model_fields["model"].annotation.model_fields.get("network") if schema else None
    return _beginning(list(registered_names(field)) if field else [], incomplete)


def keys(context: typer.Context, incomplete: str) -> list[str]:
    """Keys of the configuration of the task that has been typed, with the sign that follows them."""
    from phmrun.config import leaves

    schema = _schema(context)
    return _beginning([f"{key}=" for key, _ in leaves(schema())] if schema else [], incomplete)


def _schema(context: typer.Context) -> Any:
    """The configuration's schema of the task that has been typed; ``None`` where there is none."""
    task = _task(context)
    return TASKS.get(task).load("schema") if task else None


def _task(context: typer.Context) -> str | None:
    """The task that has been typed: before an option without its value, arguments are still unread."""
    known = TASKS.names()
    return next((word for word in (context.params.get("task"), *context.args) if word in known), None)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Run ids in the directory that ``--runs-dir`` or ``PHMRUN_RUNS`` names, else ``runs``."""
    folder = _runs_folder(context)
    if not folder.is_dir():
        return []
    return _beginning(sorted(entry.parent.name for entry in folder.glob("*/config.yaml")), incomplete)


def configs(incomplete: str) -> list[str]:
    """Configuration files that come with the package."""
    from phmrun.config import packaged_names

    return _beginning(packaged_names(), incomplete)


def papers(incomplete: str) -> list[str]:
    """Papers whose tables come with the package, and all of them."""
    from phmrun.papers import paper_names

    return _beginning([*paper_names(), "all"], incomplete)


def _runs_folder(context: typer.Context) -> Path:
    return Path(str(context.params.get("runs_dir") or os.environ.get("PHMRUN_RUNS") or "runs"))


def _beginning(names: list[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(start)]
