"""Registries of everything that a user can bring, found by entry points and ``--plugin FILE``. Imports no torch.

Listing the names reads package metadata only; the module behind a name is imported when the name is used.

==================  ==========================  ========================================================================
registry            entry-point group           object behind a name
==================  ==========================  ========================================================================
`TASKS`             ``phmrun.tasks``            a `phmrun.task.Task`
`STRUCTURES`        ``phmrun.structures``       a subclass of ``phmrun.layers.Structure``
`EMBEDDINGS`        ``phmrun.embeddings``       a function that builds a table of word vectors
`networks(family)`  ``phmrun.networks.FAMILY``  ``build(config, *sizes)`` that returns the network, or its class, which
                                                has ``options``, its section of the configuration (a subclass of
                                                ``phmrun.config.ModelConfig``), and is called as
                                                ``Network(options, sizes, structures)``
`METRICS`           ``phmrun.metrics``          a `phmrun.metric.Metric`
`LOSSES`            ``phmrun.losses``           a function of logits ``[items, classes]`` and targets ``[items]``
`OPTIMIZERS`        ``phmrun.optimizers``       a `torch.optim.Optimizer`, or a function with its signature
`SCHEDULES`         ``phmrun.schedules``        a function of the schedule's settings that returns rate(step)
`DATASETS`          ``phmrun.datasets``         a mapping as in ``phmrun/datasets/entries/*.yaml``
==================  ==========================  ========================================================================

A package announces ``name = "module:object"`` in the group; a plug-in file calls ``REGISTRY.add(name, object)``.
"""

import functools
import hashlib
import importlib
import importlib.util
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from phmrun.errors import PhmrunError, unknown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PROJECT = Path(__file__).parents[1] / "pyproject.toml"


class Registry:
    """Names of one kind ("task", "layer"), from an entry-point group and from plug-in files loaded in this process."""

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind
        self.group = group
        self._registered: dict[str, Any] = {}

    @property
    def _announced(self) -> "Mapping[str, EntryPoint]":
        """Entry points of the group by name."""
        return _entry_points().get(self.group, {})

    def names(self) -> list[str]:
        """All known names, sorted; nothing is imported."""
        return sorted(self._announced.keys() | self._registered.keys())

    def __contains__(self, name: str) -> bool:
        """True if the name is known; nothing is imported."""
        return name in self._registered or name in self._announced

    def get(self, name: str, *, where: str | None = None) -> Any:
        """Import and return the object behind ``name``; raise a `PhmrunError` if there is none."""
        if name not in self:
            raise unknown(self.kind, name, self.names(), where=where)
        if name not in self._registered:
            self._registered[name] = self._announced[name].load()
        return self._registered[name]

    def add(self, name: str, value: Any) -> None:
        """Register ``value`` under ``name``; raise a `PhmrunError` if something else has that name."""
        taken = self._registered.get(name, value)
        former, new = (str(getattr(thing, "__qualname__", thing)) for thing in (taken, value))
        if former != new:
            raise PhmrunError(f"the {self.kind} name {name!r} is taken by {taken.__module__}.{former}")
        self._registered[name] = value


TASKS = Registry("task", "phmrun.tasks")
STRUCTURES = Registry("layer", "phmrun.structures")
EMBEDDINGS = Registry("embedding", "phmrun.embeddings")
METRICS = Registry("metric", "phmrun.metrics")
LOSSES = Registry("loss", "phmrun.losses")
OPTIMIZERS = Registry("optimizer", "phmrun.optimizers")
SCHEDULES = Registry("schedule", "phmrun.schedules")
DATASETS = Registry("dataset", "phmrun.datasets")


@functools.cache
def networks(family: str) -> Registry:
    """Networks of one family of tasks, which ``model.network`` names: "sva", "lm", "sequence_to_sequence"."""
    return Registry("network", f"phmrun.networks.{family}")


@functools.cache
def _entry_points() -> "dict[str, dict[str, EntryPoint]]":
    """Entry points of all packages by group and name.

    In a checkout, phmrun's own are those of its ``pyproject.toml``: an editable install would keep those of the day on
    which it was made.
    """
    from importlib.metadata import EntryPoint, distributions

    groups: dict[str, dict[str, EntryPoint]] = {}
    ours = tomllib.loads(_PROJECT.read_text(encoding="utf-8"))["project"] if _PROJECT.is_file() else {}
    checkout = ours.get("name") == "phmrun"
    for group, places in (ours.get("entry-points", {}) if checkout else {}).items():
        groups[group] = {name: EntryPoint(name, place, group) for name, place in places.items()}
    for distribution in distributions():
        points = [point for point in distribution.entry_points if point.group.startswith("phmrun.")]
        if points and not (checkout and distribution.name == "phmrun"):
            for point in points:
                groups.setdefault(point.group, {}).setdefault(point.name, point)
    return groups


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


def load(place: str) -> Any:
    """Imports what ``module:name`` names."""
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
