"""Which datasets there are: read from the YAML files in ``entries``, and checked."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources import files
from typing import Any

from phmrun.datasets.dataset import FORMATS, MARKUPS, Dataset, File, Part, Remote, is_safe
from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError, unknown

_SHA256 = re.compile(r"[0-9a-f]{64}")
_FACTS = ("tasks", "summary", "licence", "format")
_DATASET_KEYS = {*_FACTS, "homepage", "citation", "note", "by_hand", "sizes", "mirrors", "archives", "splits"}
_REMOTE_KEYS = {"urls", "sha256", "bytes"}
_PART_KEYS = {"archive", "member", "markup", "every", "but_every", "rows"}
_FILE_KEYS = _REMOTE_KEYS | {"path", "archive", "member", "parts"}
_ROLES_KEYS = {"roles", "path", "parts"}


class Catalogue:
    """The datasets by name; parsed when it is first asked.

    Args:
        text: The catalogue as YAML, or None for the one that comes with phmrun.
    """

    def __init__(self, text: str | None = None) -> None:
        self._text = text

    def names(self, task: str | None = None) -> list[str]:
        """All names, or those of the datasets of a task, sorted."""
        return sorted(name for name, dataset in self._datasets.items() if task is None or task in dataset.tasks)

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
        datasets: dict[str, Dataset] = {}
        for source, text in _texts() if self._text is None else [("catalogue", self._text)]:
            entries = parse_yaml(text, source)
            for name, entry in _table(entries, "catalogue").items():
                if name in datasets:
                    raise PhmrunError("there are two entries of that name", where=f"catalogue: {name}")
                if not name.startswith("."):  # what several entries share
                    datasets[name] = _dataset(name, entry)
        return datasets


CATALOGUE = Catalogue()


def _texts() -> Iterator[tuple[str, str]]:
    """The files that come with phmrun."""
    for path in sorted((files("phmrun.datasets") / "entries").iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            yield path.name, path.read_text(encoding="utf-8")


def _dataset(name: str, entry: Any) -> Dataset:
    """Checks one entry and builds it."""
    entry = _table(entry, name, _DATASET_KEYS)
    missing = set(_FACTS) - entry.keys()
    if missing:
        raise _fault(f"missing: {', '.join(sorted(missing))}", name)
    if entry["format"] not in FORMATS:
        raise PhmrunError(f"there is no format {entry['format']!r}", where=f"catalogue: {name}", valid=FORMATS)
    if not is_safe(name):
        raise _fault("the name is no relative path", name)
    mirrors = tuple(entry.get("mirrors") or ())
    archives = {
        key: _remote(
            _table(value, f"{name}.archives.{key}", _REMOTE_KEYS) | {"path": f".archives/{key}"},
            f"{name}.archives.{key}",
            needs_address=not entry.get("by_hand"),
        )
        for key, value in _table(entry.get("archives") or {}, f"{name}.archives").items()
    }
    splits = {
        split: tuple(_files(_table(roles, f"{name}.splits.{split}"), mirrors, archives, f"{name}.splits.{split}"))
        for split, roles in _table(entry.get("splits") or {}, f"{name}.splits").items()
    }
    facts = {key: entry.get(key) for key in ("homepage", "citation", "note", "by_hand")}
    return Dataset(
        name=name,
        tasks=tuple(entry["tasks"]),
        summary=entry["summary"],
        licence=entry["licence"],
        format=entry["format"],
        sizes=_sizes(entry.get("sizes") or {}, name),
        splits=splits,
        archives=archives,
        **facts,
    )


def _sizes(entry: Any, name: str) -> dict[str, dict[str, int]]:
    """Counts by split and unit."""
    sizes = {split: _table(counts, f"{name}.sizes.{split}") for split, counts in _table(entry, f"{name}.sizes").items()}
    for split, counts in sizes.items():
        for unit, count in counts.items():
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise _fault(f"{count!r} is not a count", f"{name}.sizes.{split}.{unit}")
    return sizes


def _files(
    entry: dict[str, Any], mirrors: tuple[str, ...], archives: Mapping[str, Remote], where: str
) -> Iterator[File]:
    """The files of one split: by role, or all alike with ``{role}`` in their names."""
    if "roles" not in entry:
        for role, value in entry.items():
            yield _file(_table(value, f"{where}.{role}", _FILE_KEYS), role, mirrors, archives, f"{where}.{role}")
        return
    entry = _table(entry, where, _ROLES_KEYS)
    for role in entry["roles"]:
        named = {"path": entry.get("path"), "parts": entry.get("parts") or []}
        yield _file(_for_role(named, role), role, mirrors, archives, f"{where}.{role}")


def _for_role(value: Any, role: str) -> Any:
    """``value`` with ``{role}`` filled in, and of a table by role the role's own."""
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
    """Checks one file's entry and builds it."""
    single = {key: entry[key] for key in ("archive", "member") if key in entry}
    if single and "parts" in entry:
        raise _fault("there is one archive, or there are parts", where)
    parts = tuple(_part(part, archives, where) for part in ([single] if single else entry.get("parts") or []))
    if not parts and "urls" not in entry:
        entry = {**entry, "urls": [f"{mirror}{entry.get('path')}" for mirror in mirrors]}
    remote = _remote(entry, where, needs_address=not parts)
    return File(remote.path, remote.urls, remote.sha256, remote.bytes, role=role, parts=parts)


def _part(entry: Any, archives: Mapping[str, Remote], where: str) -> Part:
    """Checks where a piece of a file comes from."""
    entry = _table(entry, where, _PART_KEYS)
    archive, member, rows = entry.get("archive"), entry.get("member"), entry.get("rows")
    if archive not in archives:
        raise _fault(f"the archive must be listed, and {archive!r} is not", where)
    if member is not None and not (isinstance(member, str) and is_safe(member)):
        raise _fault(f"member {member!r} is no relative path", where)
    if entry.get("markup") not in (None, *MARKUPS):
        raise PhmrunError(f"there is no markup {entry['markup']!r}", where=f"catalogue: {where}", valid=sorted(MARKUPS))
    if rows is not None:
        ((column, value),) = _table(rows, where).items()
        rows = (column, str(value))
    return Part(archive, member, entry.get("markup"), entry.get("every"), entry.get("but_every"), rows)


def _remote(entry: Mapping[str, Any], where: str, *, needs_address: bool = True) -> Remote:
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
    if not urls and needs_address:
        faults.append("there is no address")
    if any(not url.startswith("https://" if sha256 is None else ("https://", "http://")) for url in urls):
        faults.append("an address is not https, which it must be where there is no checksum")
    if faults:
        raise _fault("; ".join(faults), where)
    return Remote(str(path), urls, sha256, size)


def _table(value: Any, where: str, keys: set[str] | None = None) -> dict[str, Any]:
    """``value`` if it is a mapping with string keys, none of them unknown."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise _fault("not a table of names", where)
    if keys is not None and (extra := sorted(value.keys() - keys)):
        raise PhmrunError(f"unknown: {', '.join(extra)}", where=f"catalogue: {where}", valid=sorted(keys))
    return value


def _fault(what: str, where: str) -> PhmrunError:
    return PhmrunError(what, where=f"catalogue: {where}")
