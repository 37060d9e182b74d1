"""Search for a run's own data files by checksum below folders."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.config import Experiment
from phmrun.errors import ExitCode, PhmrunError
from phmrun.ledger.environment import DataRecord, Source
from phmrun.section import is_hashed


def with_files_below(config: Experiment, record: DataRecord, roots: Sequence[Path]) -> Experiment:
    """Return a copy of a config with its own data files found below ``roots`` by the recorded checksums.

    A file may have another name. A prefix needs files of the recorded names in one folder. A config of a catalogued
    dataset is returned unchanged.

    Raises:
        PhmrunError: (exit 3) A file is not on record or not below the folders, or a folder does not exist.
    """
    if config.data.name != "files":
        return config
    places = _places(record, roots)
    splits = [(split, file) for split, files in record.splits.items() for file in files.files]

    def moved(key: str, path: Path) -> Path:
        """Return the new place of a key's file: that of the same path, else of the key's split and name."""
        named = [(split, file) for split, file in splits if Path(file.path).name == path.name]
        if not named:
            raise PhmrunError(f"no checksum of {path.name} is on record", where=f"data.{key}", code=ExitCode.DATA)
        best = min(named, key=lambda pair: (Path(pair[1].path) != path, not key.startswith(pair[0])))
        return places[best[1].path]

    data = config.data
    changes: dict[str, Any] = {}
    for name in type(data).model_fields:
        value = getattr(data, name)
        if is_hashed(type(data), name):
            continue
        if isinstance(value, str) and name == "prefix":
            changes[name] = _prefix(value, places)
        elif isinstance(value, Path):
            changes[name] = moved(name, value)
        elif isinstance(value, tuple) and all(isinstance(item, Path) for item in value):
            changes[name] = tuple(moved(name, item) for item in value)
    return config.model_copy(update={"data": data.model_copy(update=changes)})


def _places(record: DataRecord, roots: Sequence[Path]) -> dict[str, Path]:
    """Return the absolute path of each recorded file below the roots, by its recorded path.

    A file of the recorded name is preferred.

    Raises:
        PhmrunError: (exit 3) A root does not exist, or a file is not below them.
    """
    for root in roots:
        if not root.exists():
            raise PhmrunError("there is no such folder", where=f"--data-dir {root}", code=ExitCode.DATA)
    below = [path for root in roots for path in (root, *sorted(root.rglob("*"))) if path.is_file()]
    files = {file.path: file for split in record.splits.values() for file in split.files}
    return {path: _located(file, below) for path, file in files.items()}


def _located(file: Source, below: Sequence[Path]) -> Path:
    """Return the absolute path of a file with the recorded size and SHA-256.

    Raises:
        PhmrunError: (exit 3) There is none.
    """
    name = Path(file.path).name
    for path in sorted(below, key=lambda path: path.name != name):
        if path.stat().st_size == file.bytes and Source.of(path).sha256 == file.sha256:
            return path.absolute()
    what = f"no file there is the run's {name} ({file.bytes:,} bytes, SHA-256 {file.sha256[:12]}…)"
    hint = "Name the folder that holds it; it may be named differently."
    raise PhmrunError(what, where="--data-dir", hint=hint, code=ExitCode.DATA)


def _prefix(prefix: str, places: Mapping[str, Path]) -> str:
    """Return the prefix of the recorded files at their new place: their folder, with the old prefix's last name.

    Raises:
        PhmrunError: (exit 3) They are not in one folder under their recorded names.
    """
    if len({place.parent for place in places.values()}) != 1 or any(
        place.name != Path(path).name for path, place in places.items()
    ):
        raise PhmrunError(
            "the run's files are there, but not under their names in one folder, which data.prefix needs",
            where="--data-dir",
            valid=sorted(Path(path).name for path in places),
            code=ExitCode.DATA,
        )
    return f"{next(iter(places.values())).parent}/{'' if prefix.endswith('/') else Path(prefix).name}"
