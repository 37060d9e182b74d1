"""The configuration files that come with the package, in a checkout and in a wheel alike."""

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from phmrun.config.documents import parse_mapping
from phmrun.config.layering import Source, read_source
from phmrun.errors import PhmrunError, nearest

_PACKAGE = "phmrun.configs"  # the folder configs/ of the repository, under this name once installed


def packaged_names() -> list[str]:
    """The names of all packaged files, such as ``configs/tasks/nmt.yaml``, sorted."""
    return sorted(_walk(files(_PACKAGE), "configs"))


def task_defaults(task: str) -> Source:
    """The defaults of a task, ``configs/tasks/TASK.yaml``; a task of another package may have none."""
    name = f"configs/tasks/{task}.yaml"
    return _packaged(name) if name in packaged_names() else Source(name, {})


def config_source(name: str) -> Source:
    """A configuration file by its path, or else by its name among the packaged ones.

    Args:
        name: A path, or a name such as ``configs/nmt/multi30k-small.yaml``, with or without ``configs/``.

    Raises:
        PhmrunError: There is no such file, with the nearest names; or it is malformed.
    """
    path = Path(name)
    try:
        there = path.exists()
    except OSError as error:
        raise PhmrunError(f"this is no name of a file: {error.strerror}", where=f"{name[:100]} …") from error
    if there:
        return read_source(path)
    packaged = packaged_names()
    wanted = path.as_posix()
    for candidate in (wanted, f"configs/{wanted}"):
        if candidate in packaged:
            return _packaged(candidate)
    beside = [str(path.parent / other.name) for other in path.parent.glob("*.y*ml")] if path.parent.is_dir() else []
    close = nearest(wanted, [*packaged, *beside])
    hint = f"Did you mean {' or '.join(repr(match) for match in close)}?" if close else None
    folder = path.parent.as_posix()
    beside_it = [each for each in packaged if each.startswith((f"{folder}/", f"configs/{folder}/"))]
    valid = beside_it or list(dict.fromkeys(f"{Path(each).parent.as_posix()}/…" for each in packaged))
    raise PhmrunError("there is no such file, here or in the package", where=name, valid=valid, hint=hint)


def _packaged(name: str) -> Source:
    resource = files(_PACKAGE)
    for part in name.split("/")[1:]:
        resource = resource.joinpath(part)
    text = resource.read_text(encoding="utf-8")
    return Source(name, *parse_mapping(text, name))


def _walk(folder: Traversable, name: str) -> Iterator[str]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".yaml"):
            yield f"{name}/{entry.name}"
