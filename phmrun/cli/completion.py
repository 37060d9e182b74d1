"""Names that the shell completes. No torch is imported: the shell waits for the answer."""

import os
from pathlib import Path

import typer

from phmrun.registry import EMBEDDINGS, STRUCTURES, TASKS


def tasks(incomplete: str) -> list[str]:
    """Tasks that begin with what has been typed."""
    return _beginning(TASKS.names(), incomplete)


def schemas(incomplete: str) -> list[str]:
    """What has a JSON Schema: tasks, and sweep files."""
    return _beginning([*TASKS.names(), "sweep"], incomplete)


def layers(incomplete: str) -> list[str]:
    """Weight structures, those of installed packages included."""
    return _beginning(STRUCTURES.names(), incomplete)


def embeddings(incomplete: str) -> list[str]:
    """What an embedding can be: one of the structures, or of several matrices."""
    return _beginning([*STRUCTURES.names(), *EMBEDDINGS.names()], incomplete)


def datasets(incomplete: str) -> list[str]:
    """The built-in corpus and the datasets of the catalogue."""
    from phmrun.datasets import CATALOGUE

    return _beginning(sorted({"builtin", *CATALOGUE.names()}), incomplete)


def runs(context: typer.Context, incomplete: str) -> list[str]:
    """Run ids in the directory that ``--runs-dir`` or ``PHMRUN_RUNS`` names, else ``runs``."""
    named = context.params.get("runs_dir") or os.environ.get("PHMRUN_RUNS") or "runs"
    folder = Path(str(named))
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


def _beginning(names: list[str], start: str) -> list[str]:
    return [name for name in names if name.startswith(start)]
