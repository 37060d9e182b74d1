"""Code of an experiment that is not phmrun's own: packages and plug-in files.

It is part of the run id. Changes of phmrun's own mathematics have versions (:mod:`phmrun.config.identity`). Docstrings
and comments do not count.
"""

import ast
import hashlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, LayerConfig, Section
from phmrun.config.identity import subsections
from phmrun.config.names import Registered
from phmrun.errors import PhmrunError
from phmrun.registry import EMBEDDINGS, METRICS, OURS, STRUCTURES, TASKS, Registry, is_plugin, networks, plugin_files

EXTENDS = "extends"
"""Name of the mark with the id of the run that a run extends or adapts."""


def code_marks(config: Experiment) -> dict[str, str]:
    """Return the marks of code and base run in an experiment's identity.

    They are the checksums of third-party code, and under "extends" the base run's id (its folder's name) if there is
    one.
    """
    return {**foreign_marks(config), **({EXTENDS: config.adapts.name} if config.adapts else {})}


def foreign_marks(config: Experiment) -> dict[str, str]:
    """Return the checksums of third-party packages' code, by package and object.

    Keys are "package DISTRIBUTION: KIND NAME", for a config's registered objects and the task's metrics, and "module
    NAME: KIND NAME" for those that a program has registered itself. They are part of an experiment's identity. Plug-in
    files and objects of phmrun are not among them.

    Raises:
        PhmrunError: A source file cannot be read or parsed, or there is none, as for a class typed into an interpreter.
    """
    named = {f"{registry.kind} {name}": (registry, name) for registry, name in _names(config) if name in registry}
    announced = {key: registry.announcement(name) for key, (registry, name) in named.items()}
    objects = {key: registry.get(name) for key, (registry, name) in named.items() if announced[key] is None}
    for metric in TASKS.get(config.task).metrics:
        registry, name = (METRICS, metric.name) if metric.name in METRICS else (TASKS, config.task)
        announced[f"metric {metric.name}"] = registry.announcement(name)
    return {
        f"package {entry.distribution}: {name}": _package_checksum(
            entry.point.value.partition(":")[0].partition(".")[0]
        )
        for name, entry in sorted(announced.items())
        if entry is not None and entry.distribution != OURS
    } | {
        f"module {_module(value)}: {key}": _source_checksum(value)
        for key, value in sorted(objects.items())
        if _module(value)
    }


def _module(value: Any) -> str:
    """Return the module that defines a registered object; empty for phmrun's own and for those of plug-in files."""
    name = str(getattr(getattr(value, "build", value), "__module__", OURS))
    return "" if name.partition(".")[0] == OURS or is_plugin(name) else name


def _source_checksum(value: Any) -> str:
    """Return the SHA-256 of the code of an object's module; of its own functions if that is the program itself."""
    module = _module(value)
    file = getattr(sys.modules[module], "__file__", None)
    if module != "__main__" and file:
        return hashlib.sha256(syntax_tree(Path(file)).encode()).hexdigest()
    functions = [part for part in [value, *vars(value).values()] if inspect.isfunction(part)]
    try:
        text = "\n".join(inspect.getsource(function) for function in functions)
    except OSError as error:
        hint = 'Write it into a file, and name the file: plugins=["FILE.py"].'
        raise PhmrunError(f"the code of {value.__qualname__} cannot be read", hint=hint) from error
    return hashlib.sha256(text.encode()).hexdigest()


def changed_plugins(folder: Path) -> list[str]:
    """Return the loaded plug-in files, as "plugin NAME", whose code differs from a file of that name in a folder."""
    copies = [(name, path, folder / name) for name, path in plugin_files().items()]
    return [f"plugin {name}" for name, p, copy in copies if copy.is_file() and syntax_tree(p) != syntax_tree(copy)]


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


@cache
def _package_checksum(top: str) -> str:
    """Return the SHA-256 of the syntax trees of a package's modules; cached.

    It covers the relative paths of all ``.py`` files. If the package has no ``.py`` file, it is that of the name.
    """
    spec = importlib.util.find_spec(top)
    path = Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None
    if path is None:
        return hashlib.sha256(top.encode()).hexdigest()
    files = sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]
    trees = (f"{file.relative_to(path.parent).as_posix()}\n{syntax_tree(file)}" for file in files)
    return hashlib.sha256("\n".join(trees).encode()).hexdigest()


def syntax_tree(path: Path) -> str:
    """Return a file's code in canonical form, without comments and docstrings.

    Raises:
        PhmrunError: The file cannot be read or parsed.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError) as error:
        raise PhmrunError(f"the code cannot be read: {error}", where=path) from error
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return ast.unparse(tree)
