"""Sources of configuration values: packaged files, user files, tasks' defaults."""

from collections.abc import Mapping
from contextlib import suppress
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from phmrun.documents import LARGEST, parse_yaml, parse_yaml_lines
from phmrun.errors import PhmrunError, nearest
from phmrun.files import read_regular

SWEEPS = ("configs/papers/", "configs/sweeps/")
"""Beginnings of the names of packaged sweeps."""


class Source(NamedTuple):
    """Origin of configuration values.

    Attributes:
        label: Name in messages: a file's path, ``--set``, ``--layer``.
        values: Nested mapping of keys to values. A layer's section may be the name of a structure.
        lines: Line number of each dotted key, from 1; empty unless the source is a file.
    """

    label: str
    values: Mapping[str, Any]
    lines: Mapping[str, int] = MappingProxyType({})

    def at(self, key: str) -> str:
        """Return ``label:line`` of a key.

        It is the label alone if the line is unknown. ``key`` is dotted.
        """
        return f"{self.label}:{self.lines[key]}" if key in self.lines else self.label


def parse_mapping(text: str, name: str, *, lines: bool = True) -> tuple[dict[str, Any], dict[str, int]]:
    """Parse a YAML mapping; return it with the line of each dotted key.

    Args:
        text: YAML text; an empty text is an empty mapping.
        name: Name of the text in messages.
        lines: False: without lines, which is faster for JSON.

    Raises:
        PhmrunError: The text is not YAML, or is not a mapping.
    """
    value, numbers = parse_yaml_lines(text, name) if lines else (parse_yaml(text, name), {})
    if value is None:
        return {}, {}
    if not isinstance(value, dict):
        what = "a configuration is a mapping of keys to values"
        raise PhmrunError(what, where=name, hint="Write lines `key: value`.")
    return value, numbers


def read_source(path: Path, *, lines: bool = True) -> Source:
    """Read a YAML file as a source, with line numbers unless ``lines`` is False.

    An empty file is an empty mapping. Files above 1 MiB, or 262,144 characters, are too large.

    Raises:
        PhmrunError: The file cannot be read, is not a regular file, is too large, is not UTF-8 or is not a mapping.
    """
    try:
        text = read_regular(path, most=4 * LARGEST).decode("utf-8")  # a character has at most 4 bytes
    except OSError as error:
        raise PhmrunError(f"the file cannot be read: {error.strerror}", where=path) from error
    except UnicodeDecodeError as error:
        raise PhmrunError(f"the file is not UTF-8 text (byte {error.start})", where=path) from error
    return Source(str(path), *parse_mapping(text, str(path), lines=lines))


def packaged_names() -> list[str]:
    """Return the sorted names of all packaged configuration files.

    An example is ``configs/tasks/nmt.yaml``. They are all YAML files below ``configs``, the repository's folder, which
    is installed as ``phmrun.configs``.
    """
    return sorted(f"configs/{path.relative_to(_configs()).as_posix()}" for path in _configs().rglob("*.yaml"))


def _configs() -> Path:
    """Return the folder of the packaged configuration files."""
    return Path(str(files("phmrun.configs")))


def _packaged(name: str) -> Source:
    """Read a packaged file by its name, such as ``configs/tasks/nmt.yaml``."""
    text = (_configs().parent / name).read_text(encoding="utf-8")
    return Source(name, *parse_mapping(text, name))


def task_defaults(task: str) -> Source:
    """Return the defaults of a task, from ``configs/tasks/TASK.yaml``.

    The source is empty if there is no such file. It is looked up in the package only.
    """
    name = f"configs/tasks/{task}.yaml"
    return _packaged(name) if (_configs().parent / name).is_file() else Source(name, {})


def config_source(name: str, suggested: tuple[str, ...] = ("",)) -> Source:
    """Read a configuration file by its path or packaged name.

    An existing path takes precedence. A packaged name may lack ``configs/``, but not ``.yaml``.

    Args:
        name: Path or packaged name.
        suggested: Beginnings of the packaged names that an error may suggest; default: all.

    Raises:
        PhmrunError: There is no such file, or it is not a YAML mapping.
    """
    path, beside = Path(name), list[str]()
    with suppress(OSError):  # the name may be too long for the file system
        if path.exists():
            return read_source(path)
        beside = [str(other) for other in path.parent.glob("*.y*ml")]
    packaged, wanted = packaged_names(), path.as_posix()
    for candidate in (wanted, f"configs/{wanted}"):
        if candidate in packaged:
            return _packaged(candidate)
    packaged = [entry for entry in packaged if entry.startswith(suggested)]
    close = nearest(wanted, [*packaged, *beside])
    hint = f"Did you mean {' or '.join(repr(match) for match in close)}?" if close else None
    valid = sorted({f"{Path(entry).parent.as_posix()}/…" for entry in packaged})
    raise PhmrunError("there is no such file, here or in the package", where=name, valid=valid, hint=hint)


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested mappings for dotted keys, in a new mapping.

    ``{"a.b": 1}`` becomes ``{"a": {"b": 1}}``. No key may be a section of another.
    """
    tree: dict[str, Any] = {}
    for dotted, value in values.items():
        *parents, name = dotted.split(".")
        branch = tree
        for parent in parents:
            branch = branch.setdefault(parent, {})
        branch[name] = value
    return tree
