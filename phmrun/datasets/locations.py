"""Where data lie on this machine, and whether they are what the catalogue says."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from phmrun.datasets.catalogue import CATALOGUE, Dataset, File, Remote
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of, write_json

VARIABLE = "PHMRUN_DATA"
RECORD = ".checksums.json"


class Check(StrEnum):
    """What is known of one file."""

    VERIFIED = "verified"  # has the catalogue's checksum
    RECORDED = "unverified"  # the catalogue has none; as it was first downloaded, if it was downloaded
    WRONG = "wrong checksum"
    MISSING = "missing"


@dataclass(frozen=True)
class Presence:
    """One file of a dataset on this machine.

    Args:
        split: Its split.
        role: Its role in the split.
        file: Its catalogue entry.
        path: Where it is, or would be.
        check: What is known of it.
    """

    split: str
    role: str
    file: File
    path: Path
    check: Check


def data_dir() -> Path:
    """The directory of all datasets: ``PHMRUN_DATA``, or ``data`` in phmrun's folder in the user's cache directory."""
    if given := os.environ.get(VARIABLE):
        return Path(given).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("phmrun", appauthor=False) / "data"


def dataset_dir(dataset: Dataset) -> Path:
    """The folder of one dataset, whether or not it exists."""
    return data_dir() / dataset.name


def is_here(dataset: Dataset) -> bool:
    """Whether every file of the dataset exists; contents are not read."""
    folder = dataset_dir(dataset)
    return all((folder / file.path).is_file() for file in dataset.files)


def locate(name: str) -> dict[str, dict[str, Path]]:
    """The files of a dataset: split → role → path. Empty for a dataset that phmrun generates.

    Raises:
        PhmrunError: There is no dataset of that name (exit 2), or a file is not on this machine (exit 3).
    """
    dataset = CATALOGUE.get(name)
    folder = dataset_dir(dataset)
    missing = [file for file in dataset.files if not (folder / file.path).is_file()]
    if missing:
        raise PhmrunError(
            f"the dataset {name!r} is not on this machine; missing:\n"
            + "\n".join(f"  {folder / file.path}" for file in missing),
            hint=f"Run: phmrun data fetch {name}\n"
            f"Or set {VARIABLE} to a directory that holds it (now {data_dir()}).\n{by_hand(dataset, missing)}",
            code=ExitCode.DATA,
        )
    return {split: {file.role: folder / file.path for file in members} for split, members in dataset.splits.items()}


def by_hand(dataset: Dataset, wanted: Sequence[File] | None = None) -> str:
    """How to bring a dataset to a machine without a network: which files, from where, to which folder."""
    lines = [f"Without a network, put these files into {dataset_dir(dataset)}:"]
    for file in dataset.files if wanted is None else wanted:
        size = "" if file.bytes is None else f" ({file.bytes:,} bytes)"
        origin = f"{file.member} in {dataset.archives[file.archive].urls[0]}" if file.archive else file.urls[0]
        lines.append(f"  {file.path}{size} from {origin}")
    return "\n".join(lines)


def inspect(dataset: Dataset) -> list[Presence]:
    """Every file with what is known of it; reads all of them to compare checksums."""
    folder = dataset_dir(dataset)
    record = recorded(dataset)
    return [
        Presence(split, file.role, file, folder / file.path, check(folder / file.path, file, record))
        for split, members in dataset.splits.items()
        for file in members
    ]


def check(path: Path, file: Remote, record: Mapping[str, str]) -> Check:
    """Compares a file with the catalogue's checksum, or with the one recorded at its first download."""
    if not path.is_file():
        return Check.MISSING
    expected = file.sha256 or record.get(file.path)
    if expected is None:
        return Check.RECORDED
    if sha256_of(path) != expected:
        return Check.WRONG
    return Check.VERIFIED if file.sha256 else Check.RECORDED


def checksums(name: str) -> dict[str, str]:
    """SHA-256 by path of a dataset's files, for an experiment's identity: the catalogue's, else of the file itself.

    Raises:
        PhmrunError: There is no such dataset (exit 2), or an unverified file is not here (exit 3).
    """
    dataset = CATALOGUE.get(name)
    unverified = [file for file in dataset.files if file.sha256 is None]
    if unverified:
        locate(name)
    folder = dataset_dir(dataset)
    return {file.path: file.sha256 or sha256_of(folder / file.path) for file in dataset.files}


def recorded(dataset: Dataset) -> dict[str, str]:
    """Checksums that were recorded when files without a published one were first downloaded."""
    path = dataset_dir(dataset) / RECORD
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        hint = "Remove it, and fetch the dataset again."
        raise PhmrunError(f"cannot be read: {error}", where=str(path), hint=hint, code=ExitCode.DATA) from error


def write_record(dataset: Dataset, path: str, sha256: str) -> None:
    """Records the checksum of a file that has no published one."""
    write_json(dataset_dir(dataset) / RECORD, recorded(dataset) | {path: sha256})
