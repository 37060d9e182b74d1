"""Code of an experiment: origin, release, and checksum of its syntax tree.

Code of other packages and plug-in files is part of the run id. Changes of phmrun's own mathematics have versions
(:mod:`phmrun.config.identity`). Docstrings and comments do not count.
"""

import ast
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, LayerConfig, Section
from phmrun.config.identity import subsections
from phmrun.config.names import Registered
from phmrun.errors import PhmrunError
from phmrun.metric import Deferred, Metric
from phmrun.registry import EMBEDDINGS, METRICS, OURS, STRUCTURES, TASKS, Announcement, Registry, networks

PLUGIN = "plug-in"
Code = dict[str, dict[str, str]]
"""Place, distribution, version and checksum of objects by "kind name"."""


def code_of(config: Experiment) -> Code:
    """Return the code of a config's objects, and of the task's metrics, that are not phmrun's own.

    Keys are "kind name", such as "metric bleu", in sorted order. Values have place, distribution, version and SHA-256.
    Names that no registry has are left out.

    Raises:
        PhmrunError: A source file cannot be read or parsed.
    """
    foreign = ((name, *found) for name, found in sorted(_objects(config).items()))
    return {name: _described(value, announced) for name, value, announced in foreign if not _is_ours(announced)}


def foreign_marks(config: Experiment) -> dict[str, str]:
    """Return the checksums of third-party packages' code, by package and object.

    Keys are "package DISTRIBUTION: KIND NAME". They are part of an experiment's identity. Plug-in files and objects of
    phmrun are not among them.
    """
    described = {name: facts for name, facts in code_of(config).items() if facts["distribution"] != PLUGIN}
    return {f"package {facts['distribution']}: {name}": facts["sha256"] for name, facts in described.items()}


def _is_ours(announcement: Announcement | None) -> bool:
    """True if phmrun announces an object."""
    return announcement is not None and announcement.distribution == OURS


def _objects(config: Experiment) -> dict[str, tuple[Any, Announcement | None]]:
    """Return a config's registered objects and the task's metrics, with their announcements.

    Keys are "kind name". Names that no registry has are left out.
    """
    objects: dict[str, tuple[Any, Announcement | None]] = {}
    for registry, name in _names(config):
        if name in registry:
            objects[f"{registry.kind} {name}"] = registry.get(name), registry.announcement(name)
    for metric in TASKS.get(config.task).metrics:
        announced = METRICS.announcement(metric.name) if metric.name in METRICS else TASKS.announcement(config.task)
        objects[f"metric {metric.name}"] = metric, announced
    return objects


def _names(section: Section) -> Iterator[tuple[Registry, str]]:
    """Yield registry and name of each object that a section names.

    They are the task, the network if a registry has it, structures, those inside them (option ``of``), and values of
    registered keys. Sections inside are searched, too, also those in tuples. A name may occur several times.
    """
    if isinstance(section, Experiment):
        yield TASKS, section.task
        network = getattr(section.model, "network", None)
        families = (networks(section.task), networks("sequence_to_sequence"))
        yield from ((family, network) for family in families if isinstance(network, str) and network in family)
    if isinstance(section, LayerConfig):
        inside = section.options.get("of")
        for name in (section.structure, inside if isinstance(inside, str) else section.structure):
            yield EMBEDDINGS if name in EMBEDDINGS and name not in STRUCTURES else STRUCTURES, name
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, str):
            yield from ((mark.registry, value) for mark in field.metadata if isinstance(mark, Registered))
    for _, part in subsections(section):
        yield from _names(part)


def _described(value: Any, announcement: Announcement | None) -> dict[str, str]:
    """Return "place", "distribution", "version" and "sha256" of an object that is not phmrun's.

    Without an announcement it is a plug-in file's: distribution "plug-in", version "", and the checksum of its module.
    For an object of a distribution, the checksum is that of the whole package.
    """
    place = _place(value)
    if announcement is None:
        digest = _checksum(place.partition(":")[0])
        return {"place": place, "distribution": PLUGIN, "version": "", "sha256": digest}
    digest = _package_checksum(announcement.point.value.partition(":")[0].partition(".")[0])
    facts = {"distribution": announcement.distribution, "version": announcement.version}
    return {"place": place, **facts, "sha256": digest}


def _place(value: Any) -> str:
    """Return ``module:name`` of a registered object's class or function.

    A class or function has its own. A metric has that of its function, a task that of its data, any other object that
    of its class. For one that is imported at its first use, it is that of the target. Partial functions are unwrapped.
    """
    if isinstance(value, Metric):
        value = value.measure or value.of_items or value.read_items or value
    while isinstance(value, partial):
        value = value.func
    if isinstance(value, Deferred):
        return value.place
    value = getattr(value, "build", value) if not inspect.isclass(value) else value
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        # A task is identified by the module of its data.
        texts = (getattr(value, field.name) for field in fields(value)) if is_dataclass(value) else ()
        place = next((text for text in texts if isinstance(text, str) and ":" in text and " " not in text), None)
        if place is not None:
            return place
        value = type(value)
    return f"{value.__module__}:{value.__qualname__}"


@cache
def _checksum(module: str) -> str:
    """Return the SHA-256 of a module's syntax tree; cached.

    Comments and docstrings do not count. If the module has no ``.py`` file, it is that of the name.
    """
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(file) if file and file.endswith(".py") else _source_file(module)
    return hashlib.sha256((_tree(path) if path else module).encode()).hexdigest()


@cache
def _package_checksum(top: str) -> str:
    """Return the SHA-256 of the syntax trees of a package's modules; cached.

    It covers the relative paths of all ``.py`` files. If the package has no ``.py`` file, it is that of the name.
    """
    path = _source_file(top)
    if path is None:
        return hashlib.sha256(top.encode()).hexdigest()
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    trees = (f"{file.relative_to(path.parent).as_posix()}\n{_tree(file)}" for file in files)
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()


def _source_file(module: str) -> Path | None:
    """Return the ``.py`` file of a module.

    A package's is its ``__init__.py``. None if there is no source.
    """
    spec = importlib.util.find_spec(module)
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _tree(path: Path) -> str:
    """Return a file's code in canonical form, without comments and docstrings.

    Raises:
        PhmrunError: The file cannot be read or parsed.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError) as error:
        raise PhmrunError(f"the code cannot be read: {error}", where=str(path)) from error
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                body[:1] = [] if len(body) > 1 else [ast.Pass()]
    return ast.unparse(tree)
