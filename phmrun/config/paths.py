"""Paths of the user's files that hold in every folder."""

import glob
from pathlib import Path
from typing import Any, TypeVar

from phmrun.config.experiment import Experiment
from phmrun.config.schema import is_hashed
from phmrun.files import data_dir

Config = TypeVar("Config", bound=Experiment)


def with_absolute_paths(config: Config) -> Config:
    """The configuration with the places of its data made absolute, so that it can be used from another folder.

    A path that leads nowhere from this folder is looked for in the data directory; one that is nowhere stays as it is.
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
    if (not isinstance(value, Path) and not (own and isinstance(value, str))) or Path(value).is_absolute():
        return value
    for folder in (Path.cwd(), data_dir()):
        path = folder / value
        begun = isinstance(value, str) and path.parent.glob(f"{glob.escape(path.name)}*")  # a prefix is part of a name
        if path.exists() or (begun and any(begun)):
            return path if isinstance(value, Path) else f"{folder}/{value}"  # and may end in a slash
    return value
