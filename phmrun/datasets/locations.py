"""Files of datasets on this machine, and their checksums."""

import gzip
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from phmrun.datasets.catalogue import CATALOGUE, Dataset, File, Remote
from phmrun.documents import parse_json
from phmrun.errors import data_error, unknown
from phmrun.files import DATA_VARIABLE, data_dir, no_file, read_text, sha256_of, write_json

SPLITS = ("train", "dev", "test")  # training, validation and test data
RECORD = ".checksums.json"
DROPPED = ".dropped.json"


class Check(StrEnum):
    """Result of comparing a file with its expected checksum."""

    VERIFIED = "verified"  # has the catalogue's checksum
    RECORDED = "unverified"  # no checksum in the catalogue; unchanged since the first download, if there was one
    WRONG = "wrong checksum"
    MISSING = "missing"


@dataclass(frozen=True)
class Presence:
    """State of a dataset file on this machine."""

    split: str
    role: str  # its role in the split
    file: File
    path: Path  # where it is, or would be
    check: Check


def dataset_dir(dataset: Dataset) -> Path:
    """Return the folder of a dataset; it may not exist."""
    return data_dir() / dataset.name


def find(dataset: Dataset, file: Remote) -> Path | None:
    """Return the path of a dataset's file, which may be stored with ``.gz``.

    None if it is missing. The plain file is preferred.
    """
    path = dataset_dir(dataset) / file.path
    return next((candidate for candidate in (path, Path(f"{path}.gz")) if candidate.is_file()), None)


def is_here(dataset: Dataset) -> bool:
    """Return True if every file of every split exists.

    Contents are not read. True for a dataset without splits.
    """
    return len(splits_here(dataset)) == len(dataset.splits)


def splits_here(dataset: Dataset) -> tuple[str, ...]:
    """Return the splits whose files all exist.

    Contents are not read.
    """
    return tuple(split for split, files in dataset.splits.items() if all(find(dataset, file) for file in files))


def locate(name: str, splits: Sequence[str] | None = None) -> dict[str, dict[str, Path]]:
    """Return the paths of a dataset's files, by split and role.

    Empty for the built-in corpora. Contents are not read.

    Args:
        name: Name of the dataset.
        splits: Splits to locate; None for all.

    Raises:
        PhmrunError: The dataset or split does not exist (exit 2), or a file is missing on this machine (exit 3).
    """
    dataset = CATALOGUE.get(name)
    paths: dict[str, dict[str, Path]] = {}
    missing: dict[str, list[File]] = {}
    for split in wanted_splits(dataset, splits):
        for file in dataset.splits[split]:
            path = find(dataset, file)
            if path is None:
                missing.setdefault(split, []).append(file)
            else:
                paths.setdefault(split, {})[file.role] = path
    if not missing:
        return paths
    folder, here = dataset_dir(dataset), splits_here(dataset)
    how = f"incomplete (complete splits: {', '.join(here)})" if here else "not on this machine"
    files = [f"  {folder / file.path} ({split})" for split, members in missing.items() for file in members]
    only = "".join(f" --split {split}" for split in missing) if here else ""
    what = "\n".join([f"the dataset {name!r} is {how}; missing:", *files])
    fetching = f"Run: phmrun data fetch {name}{only}"
    elsewhere = f"Or set {DATA_VARIABLE} to a directory that holds it (now {data_dir()})."
    manually = by_hand(dataset, [file for members in missing.values() for file in members])
    raise data_error(what, None, f"{fetching}\n{elsewhere}\n{manually}")


def own_files(**given: Path | Sequence[Path | str] | None) -> dict[str, tuple[Path, ...]]:
    """Return the user's own files of each split that has any.

    Arguments are splits with a file, several, or None: ``train=path, test=None``. A single path becomes a tuple of one.

    Raises:
        PhmrunError: (exit 3) One of them does not exist.
    """
    files = {
        split: (paths,) if isinstance(paths, Path) else tuple(map(Path, paths or ())) for split, paths in given.items()
    }
    for split, paths in files.items():
        for path in paths:
            if not path.is_file():
                what = f"the {split} file {no_file(path)}: {path}"
                raise data_error(what, f"data.{split}", f"Name another with --{split}.")
    return {split: paths for split, paths in files.items() if paths}


def own_texts(data: Any) -> tuple[dict[str, Path], dict[str, str]]:
    """Return path and SHA-256 of the user's file, each by split.

    Splits without a file in the data section are left out.

    Raises:
        PhmrunError: (exit 3) A file does not exist.
    """
    files = {split: path for split, (path,) in own_files(train=data.train, dev=data.dev, test=data.test).items()}
    return files, {split: sha256_of(path) for split, path in files.items()}


def wanted_splits(dataset: Dataset, splits: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the chosen splits, without duplicates.

    All of the dataset's if ``splits`` is None, or if it is generated.

    Raises:
        PhmrunError: (exit 2) The dataset has no such split.
    """
    for split in splits or ():
        if split not in dataset.splits and not dataset.generated:
            raise unknown("split", split, dataset.splits, where=dataset.name)
    return tuple(dataset.splits) if splits is None or dataset.generated else tuple(dict.fromkeys(splits))


def by_hand(dataset: Dataset, wanted: Sequence[File]) -> str:
    """Return instructions for a machine without a network.

    They are the dataset's own, and the archives and files to put into its folder, each with its size and first address.
    """
    lines = [dataset.by_hand.strip()] if dataset.by_hand else []
    archives = dict.fromkeys(part.archive for file in wanted for part in file.parts)
    remotes: list[Remote] = [file for file in wanted if not file.parts]
    remotes += [dataset.archives[name] for name in archives]
    where = f"put these files into {dataset_dir(dataset)}, then phmrun data fetch {dataset.name}:"
    lines.append(f"Without a network, {where}")
    return "\n".join([*lines, *(f"  {remote.path}{_origin(remote)}" for remote in remotes)])


def _origin(remote: Remote) -> str:
    """Return size and first address of a file as text.

    It is " (SIZE bytes) from ADDRESS"; an unknown part is left out, and both give "".
    """
    size = "" if remote.bytes is None else f" ({remote.bytes:,} bytes)"
    return f"{size} from {remote.urls[0]}" if remote.urls else size


def inspect(dataset: Dataset) -> list[Presence]:
    """Return the state of every file of a dataset.

    They are in the catalogue's order; a missing file has the path where it would be. Present files are read, to compute
    checksums.
    """
    folder = dataset_dir(dataset)
    record = recorded(dataset, RECORD)
    return [
        Presence(split, file.role, file, find(dataset, file) or folder / file.path, check(dataset, file, record))
        for split, members in dataset.splits.items()
        for file in members
    ]


def check(dataset: Dataset, file: Remote, record: Mapping[str, str]) -> Check:
    """Return the result of comparing a file with its expected checksum.

    VERIFIED: it has the catalogue's. RECORDED: without one in the catalogue, it has the one in ``record``, or none is
    known; then it is not read. WRONG: another checksum. MISSING: there is no file.
    """
    path = find(dataset, file)
    if path is None:
        return Check.MISSING
    expected = file.sha256 or record.get(file.path)
    if expected is None:
        return Check.RECORDED
    if content_sha256(path, file) != expected:
        return Check.WRONG
    return Check.VERIFIED if file.sha256 else Check.RECORDED


def content_sha256(path: Path, file: Remote) -> str:
    """Return the SHA-256 of a file as the catalogue lists it.

    If the file is stored with ``.gz`` added, it is that of the decompressed content.

    Raises:
        PhmrunError: (exit 3) The compressed file is damaged.
    """
    if path.name == Path(file.path).name:
        return sha256_of(path)
    try:
        with gzip.open(path) as handle:
            return hashlib.file_digest(handle, "sha256").hexdigest()
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise data_error(f"the gzip data are damaged ({error})", path) from error


def checksums(name: str, splits: Sequence[str] | None = None) -> dict[str, str]:
    """Return the SHA-256 of a dataset's files, by path.

    They are part of an experiment's identity. Each is the catalogue's checksum, else the recorded one, else computed
    from the file.

    Raises:
        PhmrunError: The dataset or split does not exist (exit 2), or a file is missing from a split whose files do not
            all have a checksum in the catalogue (exit 3).
    """
    dataset = CATALOGUE.get(name)
    chosen = wanted_splits(dataset, splits)
    if unverified := [split for split in chosen if any(file.sha256 is None for file in dataset.splits[split])]:
        locate(name, unverified)
    records = recorded(dataset, RECORD)
    files = [file for split in chosen for file in dataset.splits[split]]
    return {
        file.path: file.sha256
        or records.get(file.path)
        or content_sha256(find(dataset, file) or dataset_dir(dataset) / file.path, file)
        for file in files
    }


def recorded(dataset: Dataset, name: str) -> dict[str, Any]:
    """Return a record beside the data; empty if it is missing.

    :data:`RECORD` has checksums by path, :data:`DROPPED` the number of pairs left out at assembly by split.

    Raises:
        PhmrunError: (exit 3) It cannot be read.
    """
    path = dataset_dir(dataset) / name
    try:
        return dict(parse_json(read_text(path)))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, TypeError, ValueError) as error:
        raise data_error(f"cannot be read: {error}", path, "Remove it, and fetch the dataset again.") from error


def write_record(dataset: Dataset, name: str, key: str, value: str | int) -> None:
    """Add an entry to a record, or replace it."""
    write_json(dataset_dir(dataset) / name, recorded(dataset, name) | {key: value})
