"""Paths of the user's files that hold in every folder."""

from pathlib import Path
from typing import Any, TypeVar

from phmrun.config.experiment import Experiment
from phmrun.config.schema import is_hashed

Config = TypeVar("Config", bound=Experiment)


def with_absolute_paths(config: Config) -> Config:
    """The configuration with the places of its data made absolute, so that it can be used from another folder.

    A path that leads nowhere from this folder stays as it is: it may be meant from the data directory.
    """
    data = config.data
    own = data.name == "files"
    changes: dict[str, Any] = {}
    for name in type(data).model_fields:
        value = getattr(data, name)
        if is_hashed(type(data), name) or value is None:
            continue
        if isinstance(value, tuple):
            changed: Any = tuple(_absolute(item, own) for item in value)
        else:
            changed = _absolute(value, own)
        if changed != value:
            changes[name] = changed
    return config.model_copy(update={"data": data.model_copy(update=changes)}) if changes else config


def _absolute(value: Any, own: bool) -> Any:
    """A path, or the beginning of one, from the root; anything else as it is.

    Args:
        value: What an unhashed key of the data section holds.
        own: Whether its texts name files of the user's.
    """
    if isinstance(value, Path):
        return Path.cwd() / value if value.exists() else value
    if own and isinstance(value, str):
        path = Path(value)
        found = path.exists() or path.parent.is_dir()
        return value if path.is_absolute() or not found else f"{Path.cwd()}/{value}"  # a prefix may end in a slash
    return value
