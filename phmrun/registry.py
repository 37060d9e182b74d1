"""Tasks, structures, embeddings and scores by name, ours and other people's, found by entry points. Imports no torch.

Listing the names reads package metadata only; the module behind a name is imported when the name is used.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from phmrun.errors import PhmrunError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Part = Literal["schema", "vocabulary", "data", "module", "predictor"]


class Registry:
    """Names of one kind ("task", "layer"), from an entry-point group and from plug-in files loaded in this process."""

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._registered: dict[str, Any] = {}

    @cached_property
    def _announced(self) -> "dict[str, EntryPoint]":
        """By name; the metadata of all packages are read once, since that takes as long as a small training step."""
        from importlib.metadata import entry_points

        return {point.name: point for point in entry_points(group=self.group)}

    def names(self) -> list[str]:
        """All known names, sorted; nothing is imported."""
        return sorted(self._announced.keys() | self._registered.keys())

    def __contains__(self, name: str) -> bool:
        """Whether there is something of that name; nothing is imported."""
        return name in self._registered or name in self._announced

    def get(self, name: str, *, where: str | None = None) -> Any:
        """The object behind ``name``; a `PhmrunError` where no package and no plug-in announces that name."""
        if name not in self:
            raise unknown(self.kind, name, self.names(), where=where)
        if name not in self._registered:
            self._registered[name] = self._announced[name].load()
        return self._registered[name]

    def add(self, name: str, value: Any) -> None:
        """Registers ``value`` under ``name``; a `PhmrunError` where that is taken by something else."""
        taken = self._registered.get(name, value)
        by, ours = (str(getattr(each, "__qualname__", each)) for each in (taken, value))
        if by != ours:
            raise PhmrunError(f"the {self.kind} name {name!r} is taken by {taken.__module__}.{by}")
        self._registered[name] = value


TASKS = Registry("task", "phmrun.tasks")
STRUCTURES = Registry("layer", "phmrun.structures")
EMBEDDINGS = Registry("embedding", "phmrun.embeddings")
SCORES = Registry("score", "phmrun.scores")
"""Kinds of other people's scores (:class:`phmrun.metrics.kinds.Kind`), which say their direction."""


def load_plugin(path: Path) -> str:
    """Runs a user's Python file, whose classes register themselves, and returns the SHA-256 of its source."""
    if not path.is_file():
        raise PhmrunError("the plug-in file does not exist", where=str(path))
    name = f"phmrun_plugin_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise PhmrunError("a plug-in must be a Python file", where=str(path), hint="Name it with the ending .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except PhmrunError:
        raise
    except Exception as error:
        raise PhmrunError(f"the plug-in does not import: {type(error).__name__}: {error}", where=str(path)) from error
    return hashlib.sha256(path.read_bytes()).hexdigest()


def load_plugins(paths: Iterable[Path] | None) -> dict[Path, str]:
    """:func:`load_plugin` for every path that a user gave; the SHA-256 of each source."""
    return {path: load_plugin(path) for path in paths or ()}


class Option(NamedTuple):
    """One option of a structure or an embedding, a keyword-only parameter of its constructor."""

    name: str
    annotation: Any
    default: Any
    help: str


FREEZE = Option("freeze", str, "none", "Parameters that stay as they were drawn, by name, as in a or u,v")
"""An option of every structure, whatever its constructor; a configuration states it only where somebody asks for it."""


class Format(NamedTuple):
    """A format in which a task reads the user's own files: its name, what stands where, and a valid text of each."""

    name: str
    says: str
    files: Mapping[str, str]


@dataclass(frozen=True)
class Task:
    """One task and where its parts are, each as ``module:name``.

    Args:
        name: The name on the command line.
        summary: What it is, in one line.
        schema: A subclass of ``phmrun.config.Experiment``, in a module that imports no torch.
        vocabulary: A class of what turns text into numbers; see ``phmrun.engine.data.Vocabulary``.
        data: ``build_data(config, cache)``, which makes a ``phmrun.engine.data.DataModule``.
        module: ``build_module(config, *sizes)``, which makes a ``phmrun.engine.module.TrainingModule`` for a
            vocabulary of these sizes.
        predictor: ``build_predictor(config, module, vocabulary, weights=, batch_size=, device=)``, which makes a
            ``phmrun.engine.trained_model.Predictor`` of a trained module.
        converts: Whether the predictor can convert the module for another engine, and takes ``exports=``, the directory
            where it keeps what it converted.
        formats: What the user's own files look like; all are UTF-8, plain or .gz.
        pipeline: What the Hugging Face Hub calls the task: "translation".
        networks: The networks that tables of papers name, each as ``module:name`` of its class or what builds it.
    """

    name: str
    summary: str
    schema: str
    vocabulary: str
    data: str
    module: str
    predictor: str
    converts: bool = False
    formats: tuple[Format, ...] = ()
    pipeline: str | None = None
    networks: Mapping[str, str] = field(default_factory=dict)

    def load(self, what: Part) -> Any:
        """Imports one part and returns it."""
        return load(getattr(self, what))


def load(place: str) -> Any:
    """Imports what ``module:name`` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
