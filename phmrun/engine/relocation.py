"""Search for a run's own data files by checksum below folders."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, load_run_config
from phmrun.documents import yaml_text
from phmrun.errors import ExitCode, PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.ledger.environment import DataRecord, Source, Split
from phmrun.ledger.recorded_config import config_values
from phmrun.section import is_hashed


def with_files_below(config: Experiment, record: DataRecord | None, roots: Sequence[Path]) -> Experiment:
    """Return a copy of a config with its own data files found below ``roots``.

    Files are found by the recorded checksums.

    A file may have another name, but must have the recorded size. Prefixes need files of the recorded names in one
    folder. A config of a catalogued dataset is returned unchanged. Without a record (runs of early releases), files are
    found by name; prefixes and files that are not there stay unchanged. The run id must then be compared.

    Raises:
        PhmrunError: (exit 3) A file is not on record or not below the folders, or a folder does not exist.
    """
    return config if config.data.name != "files" else _moved(config, record, _by_size(roots))


def _moved(config: Experiment, record: DataRecord | None, by_size: dict[int, list[Path]]) -> Experiment:
    """Return a copy of a config of own files with their places among the files ``by_size``.

    Raises:
        PhmrunError: (exit 3) A file is not on record or not among them.
    """
    data = config.data
    changes: dict[str, Any] = {}
    for name in type(data).model_fields:
        value = getattr(data, name)
        if value is None or is_hashed(type(data), name):
            continue
        if isinstance(value, str) and name == "prefix" and record:
            changes[name] = _prefix_below(value, record, by_size)
        elif isinstance(value, Path):
            changes[name] = _place_of(name, value, record, by_size)
        elif isinstance(value, tuple) and value and all(isinstance(item, Path) for item in value):
            changes[name] = tuple(_place_of(name, item, record, by_size) for item in value)
    return config.model_copy(update={"data": data.model_copy(update=changes)})


def place_files(runs: Iterable[Run], roots: Sequence[Path]) -> None:
    """Write new places of own data files into the records of runs.

    The files are found below ``roots`` by checksum; the folders are listed once. Paths go into the config and the
    record of data. A run on a catalogued dataset, or one whose paths are the same, stays unchanged.

    Raises:
        PhmrunError: (exit 3) A file is not on record or not below the folders, or a folder does not exist.
    """
    by_size = _by_size(roots)
    for run in runs:
        config = load_run_config(run.config_path, options_of=options_of)
        record = run.data() or DataRecord()
        if config.data.name != "files":
            continue
        before, after = (item.data.model_dump(mode="json") for item in (config, _moved(config, record, by_size)))
        changed = {key: value for key, value in after.items() if value != before.get(key)}
        if changed:
            splits = {
                name: Split(tuple(replace(file, path=str(_located(file, by_size))) for file in split.files))
                for name, split in record.splits.items()
            }
            run.write_data(replace(record, splits=splits))
            values = config_values(run.config_path)
            run.write_config(yaml_text({**values, "data": {**values["data"], **changed}}))


def _by_size(roots: Sequence[Path]) -> dict[int, list[Path]]:
    """Return the files below folders, by their size in bytes.

    Files whose size cannot be read are left out.

    Raises:
        PhmrunError: (exit 3) A root does not exist.
    """
    by_size: dict[int, list[Path]] = {}
    for path in _files_below(roots):
        with suppress(OSError):
            by_size.setdefault(path.stat().st_size, []).append(path)
    return by_size


def _files_below(roots: Sequence[Path]) -> Iterator[Path]:
    """Yield all files below folders at any depth, and ``roots`` that are files.

    Names are sorted within a folder; folders come in the order of the file system.

    Raises:
        PhmrunError: (exit 3) A root does not exist.
    """
    for root in roots:
        if not root.exists():
            raise PhmrunError("there is no such folder", where=f"--data-dir {root}", code=ExitCode.DATA)
        if root.is_file():
            yield root
        for folder, _, names in os.walk(root):
            yield from (Path(folder, name) for name in sorted(names))


def _place_of(key: str, path: Path, record: DataRecord | None, by_size: dict[int, list[Path]]) -> Path:
    """Return the absolute place of a key's file below the folders.

    It is found by the recorded checksum.

    Without a record, it is that of the first file of the same name, else ``path`` itself.

    Raises:
        PhmrunError: (exit 3) The recorded file is not there, or no file of that name is on record.
    """
    if record:
        return _located(_recorded(key, path, record), by_size)
    named = (there for paths in by_size.values() for there in paths if there.name == path.name)
    return next(named, path).absolute()


def _recorded(key: str, path: Path, record: DataRecord) -> Source:
    """Return the record of a key's file.

    Of the recorded files of that name, it is that of the same path, else of the key's split, else the first.

    Raises:
        PhmrunError: (exit 3) No file of that name is on record.
    """
    files = [(split, file) for split, files in record.splits.items() for file in files.files]
    named = [(split, file) for split, file in files if Path(file.path).name == path.name]
    if not named:
        raise PhmrunError(f"no checksum of {path.name} is on record", where=f"data.{key}", code=ExitCode.DATA)
    return min(named, key=lambda pair: (Path(pair[1].path) != path, not key.startswith(pair[0])))[1]


def _located(file: Source, by_size: dict[int, list[Path]]) -> Path:
    """Return the absolute path of a file with the recorded size and SHA-256.

    One of the recorded name is preferred.

    Raises:
        PhmrunError: (exit 3) There is none.
    """
    name = Path(file.path).name
    for path in sorted(by_size.get(file.bytes, []), key=lambda path: path.name != name):
        if Source.of(path).sha256 == file.sha256:
            return path.absolute()
    what = f"no file there is the run's {name} ({file.bytes:,} bytes, SHA-256 {file.sha256[:12]}…)"
    raise PhmrunError(what, where="--data-dir", hint="Name the folder that holds it; it may be named differently.",
                      code=ExitCode.DATA)  # fmt: skip


def _prefix_below(prefix: str, record: DataRecord, by_size: dict[int, list[Path]]) -> str:
    """Return the prefix of the recorded files at their new place.

    It is their folder, with the old prefix's last name unless that ends in a slash.

    Raises:
        PhmrunError: (exit 3) A file is missing, or they are not in one folder under their recorded names.
    """
    files = {file.path: file for split in record.splits.values() for file in split.files}
    paths = [_located(file, by_size) for file in files.values()]
    if {path.name for path in paths} != {Path(path).name for path in files} or len({p.parent for p in paths}) != 1:
        raise PhmrunError(
            "the run's files are there, but not under their names in one folder, which data.prefix needs",
            where="--data-dir",
            valid=sorted(Path(path).name for path in files),
            code=ExitCode.DATA,
        )
    return f"{paths[0].parent}/{'' if prefix.endswith('/') else Path(prefix).name}"
