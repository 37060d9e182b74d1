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
from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.files import DATA_VARIABLE, data_dir, no_file, sha256_of, write_json

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
    """Folder of a dataset; it may not exist."""
    return data_dir() / dataset.name


def find(dataset: Dataset, file: Remote) -> Path | None:
    """Path of a dataset's file, plain or with ``.gz`` after its name.

    None if it is missing.
    """
    path = dataset_dir(dataset) / file.path
    return next((candidate for candidate in (path, Path(f"{path}.gz")) if candidate.is_file()), None)


def is_here(dataset: Dataset) -> bool:
    """True if every file of the dataset exists.

    Contents are not read.
    """
    return len(splits_here(dataset)) == len(dataset.splits)


def splits_here(dataset: Dataset) -> tuple[str, ...]:
    """Splits whose files all exist; contents are not read."""
    return tuple(split for split, files in dataset.splits.items() if all(find(dataset, file) for file in files))


def locate(name: str, splits: Sequence[str] | None = None) -> dict[str, dict[str, Path]]:
    """Paths of a dataset's files by split and role.

    Empty for the built-in corpora.

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
    raise PhmrunError(
        "\n".join([f"the dataset {name!r} is {how}; missing:", *files]),
        hint=f"Run: phmrun data fetch {name}{only}\n"
        f"Or, with files that you have: phmrun data import {name} FILES\n"
        f"Or set {DATA_VARIABLE} to a directory that holds it (now {data_dir()}).\n"
        f"{by_hand(dataset, [file for members in missing.values() for file in members])}",
        code=ExitCode.DATA,
    )


def own_files(**given: Path | Sequence[Path | str] | None) -> dict[str, tuple[Path, ...]]:
    """The user's own files of each split that has any, given as a file, several, or none: ``train=path, test=None``.

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
                hint = "Name the files with --train, --dev and --test."
                raise PhmrunError(what, where=f"data.{split}", hint=hint, code=ExitCode.DATA)
    return {split: paths for split, paths in files.items() if paths}


def own_texts(data: Any) -> tuple[dict[str, Path], dict[str, str]]:
    """Path and checksum of the user's file for each split that a data section names."""
    files = {split: path for split, (path,) in own_files(train=data.train, dev=data.dev, test=data.test).items()}
    return files, {split: sha256_of(path) for split, path in files.items()}


def wanted_splits(dataset: Dataset, splits: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the chosen splits, without duplicates.

    All of the dataset's if ``splits`` is None.

    Raises:
        PhmrunError: (exit 2) The dataset has no such split.
    """
    for split in splits or ():
        if split not in dataset.splits and not dataset.generated:
            raise unknown("split", split, dataset.splits, where=dataset.name)
    return tuple(dataset.splits) if splits is None or dataset.generated else tuple(dict.fromkeys(splits))


def by_hand(dataset: Dataset, wanted: Sequence[File] | None = None) -> str:
    """Instructions for a machine without a network: files, addresses and target folder."""
    files = dataset.files if wanted is None else wanted
    lines = [dataset.by_hand.strip()] if dataset.by_hand else []
    downloads: dict[str, Remote] = {
        part.archive: dataset.archives[part.archive] for file in files for part in file.parts
    }
    if downloads and (not dataset.by_hand or any(remote.urls for remote in downloads.values())):
        lines.append(f"Without a network, download these elsewhere, then phmrun data import {dataset.name} FILES:")
        lines += [f"  {name}{_origin(remote)}" for name, remote in downloads.items()]
    if single := [file for file in files if not file.parts]:
        lines.append(f"Without a network, put these files into {dataset_dir(dataset)}:")
        lines += [f"  {file.path}{_origin(file)}" for file in single]
    return "\n".join(lines)


def _origin(remote: Remote) -> str:
    size = "" if remote.bytes is None else f" ({remote.bytes:,} bytes)"
    return f"{size} from {remote.urls[0]}" if remote.urls else size


def inspect(dataset: Dataset) -> list[Presence]:
    """Check every file of a dataset.

    Reads all of them to compute checksums.
    """
    folder = dataset_dir(dataset)
    record = recorded(dataset)
    return [
        Presence(split, file.role, file, find(dataset, file) or folder / file.path, check(dataset, file, record))
        for split, members in dataset.splits.items()
        for file in members
    ]


def check(dataset: Dataset, file: Remote, record: Mapping[str, str]) -> Check:
    """Compare a file with the catalogue's checksum, or with the one recorded at its first download."""
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
    """SHA-256 of a file as the catalogue lists it.

    Of the decompressed content if it is stored with ``.gz`` added.

    Raises:
        PhmrunError: (exit 3) The compressed file is damaged.
    """
    if path.name == Path(file.path).name:
        return sha256_of(path)
    digest = hashlib.sha256()
    try:
        with gzip.open(path) as handle:
            while piece := handle.read(1 << 20):
                digest.update(piece)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise PhmrunError(f"the gzip data are damaged ({error})", where=str(path), code=ExitCode.DATA) from error
    return digest.hexdigest()


def checksums(name: str, splits: Sequence[str] | None = None) -> dict[str, str]:
    """SHA-256 of a dataset's files by path, which is part of an experiment's identity.

    Each is the catalogue's checksum, else the recorded one, else computed from the file.

    Raises:
        PhmrunError: The dataset or split does not exist (exit 2), or a file without a checksum in the catalogue is
            missing (exit 3).
    """
    dataset = CATALOGUE.get(name)
    chosen = wanted_splits(dataset, splits)
    if unverified := [split for split in chosen if any(file.sha256 is None for file in dataset.splits[split])]:
        locate(name, unverified)
    records = recorded(dataset)
    files = [file for split in chosen for file in dataset.splits[split]]
    return {
        file.path: file.sha256
        or records.get(file.path)
        or content_sha256(find(dataset, file) or dataset_dir(dataset) / file.path, file)
        for file in files
    }


def recorded(dataset: Dataset) -> dict[str, str]:
    """Checksums recorded at the first download of files that have none in the catalogue, by path."""
    return {path: str(digest) for path, digest in _read(dataset, RECORD).items()}


def write_record(dataset: Dataset, path: str, sha256: str) -> None:
    """Record the checksum of a file that has none in the catalogue."""
    write_json(dataset_dir(dataset) / RECORD, recorded(dataset) | {path: sha256})


def dropped(dataset: Dataset) -> dict[str, int]:
    """Number of pairs left out when a split was assembled, by split."""
    return {split: int(count) for split, count in _read(dataset, DROPPED).items()}


def write_dropped(dataset: Dataset, split: str, count: int) -> None:
    """Record the number of pairs left out of a split."""
    write_json(dataset_dir(dataset) / DROPPED, dropped(dataset) | {split: count})


def _read(dataset: Dataset, name: str) -> dict[str, Any]:
    """Read a small JSON file beside the data.

    Empty if it is missing.
    """
    path = dataset_dir(dataset) / name
    try:
        return dict(parse_json(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        hint = "Remove it, and fetch the dataset again."
        raise PhmrunError(f"cannot be read: {error}", where=str(path), hint=hint, code=ExitCode.DATA) from error
