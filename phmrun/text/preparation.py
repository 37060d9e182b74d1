"""From raw text to a vocabulary and memory-mapped stores, once per content, kept in the cache.

A directory there is built beside its place and renamed when it is complete: killed at any moment, a process leaves
nothing that could be taken for a result. Its name is a checksum of everything that the result depends on, such as the
SHA-256 of every file, so that a changed file is never mistaken for the old one.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import filelock

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import intact, sha256_of, write_json
from phmrun.progress import note

TRAIN = "train"


class Kept(Protocol):
    """A vocabulary that a directory can hold."""

    def save(self, directory: Path) -> None:
        """Writes it."""

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads what ``save`` wrote."""


V = TypeVar("V", bound=Kept)
S = TypeVar("S")


@dataclass(frozen=True)
class Prepared(Generic[V, S]):
    """Data that are ready to train on.

    Args:
        path: Their directory in the cache.
        vocabulary: What turned the text into numbers.
        stores: Token ids by split.
        statistics: Sizes and rates, all of it JSON: ``vocabulary`` and, by split, ``splits``.
    """

    path: Path
    vocabulary: V
    stores: dict[str, S]
    statistics: dict[str, Any]


def prepare(
    cache: Path,
    content: Mapping[str, Any],
    splits: Iterable[str],
    *,
    learn: Callable[[], V],
    encode: Callable[[str, V, Path], dict[str, Any]],
    describe: Callable[[V], dict[str, Any]],
    kind: type[V],
    store: Callable[[Path], S],
) -> Prepared[V, S]:
    """Learns a vocabulary and encodes the splits with it; or finds that done in the cache.

    Args:
        cache: Directory of prepared data.
        content: See :func:`build_once`.
        splits: The names of the splits.
        learn: Makes the vocabulary.
        encode: Writes the store of a split into a directory, and returns its statistics.
        describe: What the statistics say of the vocabulary.
        kind: The vocabulary's class.
        store: Opens a store.

    Raises:
        PhmrunError: A file is missing or malformed, or the directory is damaged (exit 3), or a setting is out of range.
    """
    splits = list(splits)

    def build(path: Path) -> dict[str, Any]:
        vocabulary = learn()
        vocabulary.save(path / "vocabulary")
        described = describe(vocabulary)
        return {"vocabulary": described, "splits": {split: encode(split, vocabulary, path / split) for split in splits}}

    path, statistics = build_once(cache, content, build)
    stores = {split: store(path / split) for split in splits}
    return Prepared(path, kind.load(path / "vocabulary"), stores, statistics)


def build_once(
    cache: Path, content: Mapping[str, Any], build: Callable[[Path], dict[str, Any]], last: str = "statistics.json"
) -> tuple[Path, dict[str, Any]]:
    """A directory in the cache that is made unless it is there, and what is said of it.

    Args:
        cache: Directory of prepared data.
        content: Everything that the result depends on, JSON; a path stands for the checksum of its file.
        build: Fills the directory that it is given and returns what is to be said of it, JSON.
        last: The file that this is written to, after all others: a directory that has it is complete.

    Raises:
        PhmrunError: (exit 3) A file is missing, or the directory is damaged.
    """
    path = cache / _name(content)
    _make(path, path / last, build)
    with intact("the prepared data are", path, f"Remove {path}; it is made again."):
        return path, dict(parse_json((path / last).read_text(encoding="utf-8")))


def _name(content: Mapping[str, Any]) -> str:
    """The first 16 hexadecimal digits of a SHA-256 over JSON values and the files' checksums."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=_checksum).encode()).hexdigest()[:16]


def _checksum(path: Path) -> str:
    if not path.is_file():
        raise PhmrunError("the file does not exist", where=str(path), code=ExitCode.DATA)
    return sha256_of(path)


def _make(path: Path, last: Path, build: Callable[[Path], dict[str, Any]]) -> None:
    """Makes a directory unless it is there; a second process that wants the same waits for the first."""
    if last.is_file():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path.with_name(f"{path.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        note(f"another process prepares these data ({path.name}); waiting for it")
        lock.acquire()
    try:
        if last.is_file():
            return
        building = path.with_name(f".{path.name}.tmp")
        for leftover in (building, path):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        building.mkdir()
        try:
            write_json(building / last.name, build(building))
            building.rename(path)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    finally:
        lock.release()
