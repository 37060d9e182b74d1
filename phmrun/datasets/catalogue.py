"""Catalogue of datasets with their splits and files, read from the YAML files in ``entries`` and validated."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Any

from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError, unknown
from phmrun.files import read_text
from phmrun.registry import DATASETS

FORMATS = (
    *("parallel", "snli", "scitail", "dnli", "quora", "sick", "agreement", "conllu", "lines", "vectors"),
    "generated",
)
MARKUPS = ("lines", "talks", "segments", "table")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FACTS = ("tasks", "summary", "licence", "format")
_DATASET_KEYS = {*_FACTS, "homepage", "citation", "note", "by_hand", "sizes", "mirrors", "archives", "splits"}
_REMOTE_KEYS = {"urls", "sha256", "bytes"}
_PART_KEYS = {"archive", "member", "markup", "every", "but_every", "rows"}
_FILE_KEYS = _REMOTE_KEYS | {"path", "archive", "member", "parts"}
_ROLES_KEYS = {"roles", "path", "parts"}


@dataclass(frozen=True)
class Remote:
    """A file to download."""

    path: str  # below the dataset's folder, with forward slashes
    urls: tuple[str, ...] = ()  # addresses, tried in this order
    sha256: str | None = None  # None if no checksum is published
    bytes: int | None = None


@dataclass(frozen=True)
class Part:
    """A part of a file, taken from a download."""

    archive: str  # name of the dataset's archive, or single file, that holds it
    member: str | None = None  # name within the archive; None: the download itself
    # None: copied byte for byte; `lines`: one sentence a line; `talks`: tagged training text of IWSLT;
    # `segments`: text between `<seg>` and `</seg>`; `table`: a header and rows
    markup: str | None = None
    every: int | None = None  # k: keep every k-th line only
    but_every: int | None = None  # k: leave out every k-th line
    rows: tuple[str, str] | None = None  # (column, value): keep only these rows of the table


@dataclass(frozen=True)
class File(Remote):
    """A file of a split, stored plain or compressed with ``.gz`` after its name."""

    role: str = ""  # role within its split, such as the language of parallel text
    parts: tuple[Part, ...] = ()  # parts to assemble it from; empty if it is downloaded directly

    @property
    def assembled(self) -> bool:
        """True if it is assembled line by line: of several parts, or with markup.

        No published checksum applies then.
        """
        return len(self.parts) > 1 or any(part.markup for part in self.parts)


@dataclass(frozen=True)
class Dataset:
    """Entry of the catalogue."""

    name: str  # value of `--data`, and name of the folder in the data directory
    tasks: tuple[str, ...]  # tasks that can train on it
    summary: str
    licence: str  # terms of use
    format: str  # file format, one of `FORMATS`
    homepage: str | None = None
    citation: str | None = None  # BibTeX
    note: str | None = None  # remarks, such as differences from the data of a paper
    by_hand: str | None = None  # instructions if no address can be fetched
    # published counts by split and unit (pairs, sentences, …)
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    splits: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    archives: Mapping[str, Remote] = field(default_factory=dict)  # archives that hold the files, by name

    @property
    def generated(self) -> bool:
        """True if phmrun generates the data, so that nothing is downloaded."""
        return self.format == "generated"

    @property
    def files(self) -> tuple[File, ...]:
        """Files of all splits, each path once."""
        return tuple({file.path: file for split in self.splits.values() for file in split}.values())

    @property
    def bytes(self) -> int | None:
        """Total size of all files in bytes.

        None if one is unknown.
        """
        sizes = [file.bytes for file in self.files]
        return None if None in sizes else sum(size for size in sizes if size is not None)


class Catalogue:
    """Datasets by name, parsed at first use.

    From YAML text or, by default, from the packaged entries, plug-ins and ``datasets/*.yaml`` of the working folder.
    """

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    def names(self, task: str | None = None) -> list[str]:
        """Return the sorted names of all datasets, or of those for a task.

        Without a text, datasets of plug-ins and of the working folder are included.
        """
        datasets = {**{name: self.get(name) for name in self._announced}, **self._datasets}
        datasets |= self._local() if self._text is None else {}
        return sorted(name for name, dataset in datasets.items() if task is None or task in dataset.tasks)

    def get(self, name: str, *, where: str | None = None) -> Dataset:
        """Return the dataset of that name.

        ``where`` is the place that the error names. Names are searched in the text or packaged entries, then in
        plug-ins, then in the working folder.

        Raises:
            PhmrunError: (exit 2) The catalogue has no such dataset; the message lists the nearest names.
        """
        if name in self._datasets:
            return self._datasets[name]
        if name in self._announced:
            return _dataset(name, DATASETS.get(name))
        if self._text is None and name in (local := self._local()):
            return local[name]
        raise unknown("dataset", name, self.names(), where=where)

    @property
    def _announced(self) -> list[str]:
        """Names of datasets that packages and plug-ins add.

        There are none if a text was given.
        """
        return [name for name in DATASETS.names() if name not in self._datasets] if self._text is None else []

    def _local(self) -> dict[str, Dataset]:
        """Return the datasets of ``datasets/*.yaml`` in the working folder.

        Files without an entry that has tasks and a format are something else, and left out.

        Raises:
            PhmrunError: An entry is invalid, or its name occurs twice or is one of phmrun's or of a plug-in.
        """
        datasets: dict[str, Dataset] = {}
        for path in sorted(Path("datasets").glob("*.yaml")):
            entries = parse_yaml(read_text(path), str(path))
            for name, entry in entries.items() if isinstance(entries, dict) else ():
                if not (isinstance(entry, dict) and {"tasks", "format"} <= entry.keys()):
                    continue
                if name.casefold() in (other.casefold() for other in (*self._datasets, *DATASETS.names(), *datasets)):
                    hint = "Rename it; its files are then in a folder of the new name."
                    raise PhmrunError(f"the dataset name {name!r} is taken", where=str(path), hint=hint)
                datasets[name] = _dataset(name, entry)
        return datasets

    @cached_property
    def _datasets(self) -> dict[str, Dataset]:
        """Datasets of the text or of the packaged files, by name.

        Entries whose names begin with a dot are shared parts, and left out.

        Raises:
            PhmrunError: An entry is invalid, or a name occurs twice.
        """
        texts = [("catalogue", self._text)]
        if self._text is None:
            paths = sorted((files("phmrun.datasets") / "entries").iterdir(), key=lambda path: path.name)
            texts = [(path.name, path.read_text(encoding="utf-8")) for path in paths if path.name.endswith(".yaml")]
        datasets: dict[str, Dataset] = {}
        for source, text in texts:
            for name, entry in _table(parse_yaml(text or "", source), "catalogue").items():
                if name in datasets:
                    raise _fault("there are two entries of that name", name)
                if not name.startswith("."):  # what several entries share
                    datasets[name] = _dataset(name, entry)
        return datasets


CATALOGUE = Catalogue()


def is_safe(path: str) -> bool:
    """Return True if a relative path stays below its folder.

    Absolute paths, "..", backslashes, NUL and drives are refused; so is the empty path.
    """
    parts = PurePosixPath(path).parts
    drive = len(path) > 1 and path[1] == ":"
    return bool(parts) and not (path.startswith("/") or ".." in parts or "\\" in path or "\0" in path or drive)


def _dataset(name: str, entry: Any) -> Dataset:
    """Build a dataset from an entry of the catalogue.

    Its name must be a relative path. Archives are stored as ``.archives/NAME``, and need an address unless the entry
    has ``by_hand``. Sizes are whole numbers from 0. Files without addresses or parts use the entry's mirrors.

    Raises:
        PhmrunError: The entry lacks a key, or has an unknown one, an unknown format, or an invalid value.
    """
    entry = _table(entry, name, _DATASET_KEYS)
    if missing := set(_FACTS) - entry.keys():
        raise _fault(f"missing: {', '.join(sorted(missing))}", name)
    if entry["format"] not in FORMATS:
        raise _fault(f"there is no format {entry['format']!r}", name, FORMATS)
    if not is_safe(name) or str(PurePosixPath(name)) != name:  # "multi30k/" would share multi30k's folder
        raise _fault("the name is no relative path", name)
    mirrors = tuple(entry.get("mirrors") or ())
    archives = {}
    for key, value in _table(entry.get("archives") or {}, f"{name}.archives").items():
        where = f"{name}.archives.{key}"
        remote = _table(value, where, _REMOTE_KEYS) | {"path": f".archives/{key}"}
        # An archive that only a browser can download has no address; by_hand holds the instructions.
        archives[key] = _remote(remote, where, needs_address=not entry.get("by_hand"))
    splits = {
        split: tuple(_files(_table(roles, f"{name}.splits.{split}"), mirrors, archives, f"{name}.splits.{split}"))
        for split, roles in _table(entry.get("splits") or {}, f"{name}.splits").items()
    }
    sizes = {}
    for split, value in _table(entry.get("sizes") or {}, f"{name}.sizes").items():
        sizes[split] = _table(value, f"{name}.sizes.{split}")
        for unit, count in sizes[split].items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise _fault(f"{count!r} is not a count", f"{name}.sizes.{split}.{unit}")
    facts = {key: entry.get(key) for key in (*_FACTS, "homepage", "citation", "note", "by_hand")}
    return Dataset(name, **{**facts, "tasks": tuple(entry["tasks"])}, sizes=sizes, splits=splits, archives=archives)


def _files(
    entry: dict[str, Any], mirrors: tuple[str, ...], archives: Mapping[str, Remote], where: str
) -> Iterator[File]:
    """Yield the files of a split.

    They are listed by role. If the entry has "roles", "path" and "parts" are a pattern in which ``{role}`` is replaced.
    """
    if "roles" not in entry:
        for role, value in entry.items():
            yield _file(_table(value, f"{where}.{role}", _FILE_KEYS), role, mirrors, archives, f"{where}.{role}")
        return
    entry = _table(entry, where, _ROLES_KEYS)
    for role in entry["roles"]:
        named = {"path": entry.get("path"), "parts": entry.get("parts") or []}
        yield _file(_for_role(named, role), role, mirrors, archives, f"{where}.{role}")


def _for_role(value: Any, role: str) -> Any:
    """Replace ``{role}`` in a value, recursively.

    A mapping that has the role as a key is replaced by its entry.
    """
    if isinstance(value, str):
        return value.replace("{role}", role)
    if isinstance(value, list):
        return [_for_role(item, role) for item in value]
    if isinstance(value, dict):
        return value[role] if role in value else {key: _for_role(item, role) for key, item in value.items()}
    return value


def _file(
    entry: dict[str, Any], role: str, mirrors: tuple[str, ...], archives: Mapping[str, Remote], where: str
) -> File:
    """Build a file from an entry.

    If it has neither addresses nor parts, its addresses are the mirrors with its path.

    Raises:
        PhmrunError: The entry is invalid, or has both an archive and parts.
    """
    single = {key: entry[key] for key in ("archive", "member") if key in entry}
    if single and "parts" in entry:
        raise _fault("there is one archive, or there are parts", where)
    parts = tuple(_part(part, archives, where) for part in ([single] if single else entry.get("parts") or []))
    if not parts and "urls" not in entry:
        entry = {**entry, "urls": [f"{mirror}{entry.get('path')}" for mirror in mirrors]}
    remote = _remote(entry, where, needs_address=not parts)
    return File(remote.path, remote.urls, remote.sha256, remote.bytes, role=role, parts=parts)


def _part(entry: Any, archives: Mapping[str, Remote], where: str) -> Part:
    """Build a part of a file from an entry.

    ``rows`` is a mapping of one column to its value.

    Raises:
        PhmrunError: Its archive is not listed, or a key or value is invalid.
    """
    entry = _table(entry, where, _PART_KEYS)
    archive, member, rows = entry.get("archive"), entry.get("member"), entry.get("rows")
    if archive not in archives:
        raise _fault(f"the archive must be listed, and {archive!r} is not", where)
    if member is not None and not (isinstance(member, str) and is_safe(member)):
        raise _fault(f"member {member!r} is no relative path", where)
    if entry.get("markup") not in (None, *MARKUPS):
        raise _fault(f"there is no markup {entry['markup']!r}", where, sorted(MARKUPS))
    if rows is not None:
        ((column, value),) = _table(rows, where).items()
        rows = (column, str(value))
    return Part(archive, member, entry.get("markup"), entry.get("every"), entry.get("but_every"), rows)


def _remote(entry: Mapping[str, Any], where: str, *, needs_address: bool) -> Remote:
    """Build a remote file, after a check of path, addresses, checksum and size.

    Addresses are https, or also http with a checksum. Addresses, checksum and size may be missing.

    Raises:
        PhmrunError: One of them is invalid, or ``needs_address`` is True and there is no address.
    """
    path, sha256, size = entry.get("path"), entry.get("sha256"), entry.get("bytes")
    urls = tuple(entry.get("urls") or ())
    faults = []
    if not isinstance(path, str) or not is_safe(path):
        faults.append(f"path {path!r} is not a relative path below the dataset's folder")
    if sha256 is not None and not _SHA256.fullmatch(str(sha256)):
        faults.append(f"sha256 {sha256!r} is not 64 hexadecimal digits")
    if size is not None and not (isinstance(size, int) and size >= 0):
        faults.append(f"bytes {size!r} is not a size")
    if not urls and needs_address:
        faults.append("there is no address")
    if any(not url.startswith("https://" if sha256 is None else ("https://", "http://")) for url in urls):
        faults.append("an address is not https, which it must be where there is no checksum")
    if faults:
        raise _fault("; ".join(faults), where)
    return Remote(str(path), urls, sha256, size)


def _table(value: Any, where: str, keys: set[str] | None = None) -> dict[str, Any]:
    """Return ``value`` if it is a mapping whose keys are all in ``keys``.

    Keys must be strings; ``keys`` of None allows any.

    Raises:
        PhmrunError: It is not.
    """
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _fault("not a table of names", where)
    if keys is not None and (extra := sorted(value.keys() - keys)):
        raise _fault(f"unknown: {', '.join(extra)}", where, sorted(keys))
    return value


def _fault(what: str, where: str, valid: Sequence[str] = ()) -> PhmrunError:
    """Return an error (exit 2) about an entry of the catalogue."""
    return PhmrunError(what, where=f"catalogue: {where}", valid=valid)
