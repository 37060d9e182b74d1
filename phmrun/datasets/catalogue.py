"""Which datasets there are: names, splits, official addresses, checksums, licences. Read from ``catalogue.yaml``."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any

import yaml

from phmrun.errors import PhmrunError, unknown

_SHA256 = re.compile(r"[0-9a-f]{64}")
_DATASET_KEYS = {
    *("tasks", "summary", "licence", "homepage", "citation", "format", "sizes", "mirrors", "archives", "splits")
}
_REMOTE_KEYS = {"urls", "sha256", "bytes"}
_FILE_KEYS = _REMOTE_KEYS | {"path", "archive", "member"}
FORMATS = ("parallel", "generated")


@dataclass(frozen=True)
class Remote:
    """Something to download.

    Args:
        path: Where it lies below the dataset's folder, with forward slashes.
        urls: Addresses, in the order in which they are tried.
        sha256: Its checksum, or None where its owners publish none.
        bytes: Its size, where known.
    """

    path: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class File(Remote):
    """One file of a split.

    Args:
        role: What it is within its split: the language, for parallel text.
        archive: Name of the dataset's archive that holds it, or None where it is downloaded by itself.
        member: Its name within the archive.
    """

    role: str = ""
    archive: str | None = None
    member: str | None = None


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue.

    Args:
        name: What ``--data`` takes, and the name of its folder in the data directory.
        tasks: Names of the tasks that can train on it.
        summary: One line.
        licence: What its owners allow.
        format: How its files are read: one of ``FORMATS``.
        homepage: Where its owners describe it.
        citation: BibTeX.
        sizes: What its owners say that each split holds.
        splits: Files by split.
        archives: Archives by name.
    """

    name: str
    tasks: tuple[str, ...]
    summary: str
    licence: str
    format: str
    homepage: str | None = None
    citation: str | None = None
    sizes: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    archives: Mapping[str, Remote] = field(default_factory=dict)

    @property
    def generated(self) -> bool:
        """Whether phmrun makes it itself, so that there is nothing to fetch."""
        return self.format == "generated"

    @property
    def files(self) -> tuple[File, ...]:
        """The files of all splits, each once."""
        return tuple({file.path: file for split in self.splits.values() for file in split}.values())

    @property
    def bytes(self) -> int | None:
        """Size of all files on disk, or None where one is not known."""
        sizes = [file.bytes for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


class Catalogue:
    """The datasets by name; parsed when it is first asked.

    Args:
        text: The catalogue as YAML, or None for the one that comes with phmrun.
    """

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._datasets)

    def get(self, name: str, *, where: str | None = None) -> Dataset:
        """The dataset of that name.

        Raises:
            PhmrunError: (exit 2) There is none; the nearest names are given.
        """
        if name not in self._datasets:
            raise unknown("dataset", name, self.names(), where=where)
        return self._datasets[name]

    @cached_property
    def _datasets(self) -> dict[str, Dataset]:
        text = self._text
        if text is None:
            text = (files("phmrun.datasets") / "catalogue.yaml").read_text(encoding="utf-8")
        entries = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        return {name: _dataset(name, entry) for name, entry in _table(entries, "catalogue").items()}


CATALOGUE = Catalogue()


def _dataset(name: str, entry: Any) -> Dataset:
    """Checks one entry and builds it."""
    entry = _table(entry, name, _DATASET_KEYS)
    missing = {"tasks", "summary", "licence", "format"} - entry.keys()
    if missing:
        raise PhmrunError(f"missing: {', '.join(sorted(missing))}", where=f"catalogue: {name}")
    if entry["format"] not in FORMATS:
        raise PhmrunError(f"there is no format {entry['format']!r}", where=f"catalogue: {name}", valid=FORMATS)
    mirrors = tuple(entry.get("mirrors") or ())
    archives = {
        key: _remote(
            _table(value, f"{name}.archives.{key}", _REMOTE_KEYS) | {"path": f".archives/{key}"},
            f"{name}.archives.{key}",
        )
        for key, value in _table(entry.get("archives") or {}, f"{name}.archives").items()
    }
    splits = {
        split: tuple(
            _file(value, role, mirrors, archives, f"{name}.splits.{split}.{role}") for role, value in roles.items()
        )
        for split, roles in _table(entry.get("splits") or {}, f"{name}.splits").items()
    }
    return Dataset(
        name=name,
        tasks=tuple(entry["tasks"]),
        summary=entry["summary"],
        licence=entry["licence"],
        format=entry["format"],
        homepage=entry.get("homepage"),
        citation=entry.get("citation"),
        sizes=entry.get("sizes") or {},
        splits=splits,
        archives=archives,
    )


def _file(entry: Any, role: str, mirrors: tuple[str, ...], archives: Mapping[str, Remote], where: str) -> File:
    """Checks one file's entry and builds it."""
    entry = _table(entry, where, _FILE_KEYS)
    archive, member = entry.get("archive"), entry.get("member")
    if (archive is None) != (member is None) or (archive is not None and archive not in archives):
        raise PhmrunError("archive and member go together, and the archive must be listed", where=f"catalogue: {where}")
    if archive is None and "urls" not in entry:
        entry = {**entry, "urls": [f"{mirror}{entry.get('path')}" for mirror in mirrors]}
    remote = _remote(entry, where, unpacked=archive is not None)
    return File(remote.path, remote.urls, remote.sha256, remote.bytes, role=role, archive=archive, member=member)


def _remote(entry: Mapping[str, Any], where: str, *, unpacked: bool = False) -> Remote:
    """Checks path, addresses, checksum and size."""
    path, sha256, size = entry.get("path"), entry.get("sha256"), entry.get("bytes")
    urls = tuple(entry.get("urls") or ())
    faults = []
    if not isinstance(path, str) or not is_safe(path):
        faults.append(f"path {path!r} is not a relative path below the dataset's folder")
    if sha256 is not None and not _SHA256.fullmatch(str(sha256)):
        faults.append(f"sha256 {sha256!r} is not 64 hexadecimal digits")
    if size is not None and not (isinstance(size, int) and size >= 0):
        faults.append(f"bytes {size!r} is not a size")
    if not urls and not unpacked:
        faults.append("there is no address")
    if any(not url.startswith("https://" if sha256 is None else ("https://", "http://")) for url in urls):
        faults.append("an address is not https, which it must be where there is no checksum")
    if faults:
        raise PhmrunError("; ".join(faults), where=f"catalogue: {where}")
    return Remote(str(path), urls, sha256, size)


def is_safe(path: str) -> bool:
    """Whether a path with forward slashes is relative and stays below the folder that it is taken from."""
    parts = PurePosixPath(path).parts
    drive = len(path) > 1 and path[1] == ":"
    return bool(parts) and not (path.startswith("/") or ".." in parts or "\\" in path or "\0" in path or drive)


def _table(value: Any, where: str, keys: set[str] | None = None) -> dict[str, Any]:
    """``value`` if it is a mapping with string keys, none of them unknown."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise PhmrunError("not a table of names", where=f"catalogue: {where}")
    if keys is not None and (extra := sorted(value.keys() - keys)):
        raise PhmrunError(f"unknown: {', '.join(extra)}", where=f"catalogue: {where}", valid=sorted(keys))
    return value
