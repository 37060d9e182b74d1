"""Catalogue of datasets with their splits and files, read from the YAML files in ``entries`` and validated."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from phmrun.documents import parse_yaml
from phmrun.errors import PhmrunError, unknown
from phmrun.files import intact, read_text
from phmrun.registry import DATASETS


def is_safe(path: str) -> bool:
    """Return True if a relative path stays below its folder.

    Absolute paths, "..", backslashes, NUL and drives are refused; so is the empty path.
    """
    parts = PurePosixPath(path).parts
    drive = len(path) > 1 and path[1] == ":"
    return bool(parts) and not (path.startswith("/") or ".." in parts or "\\" in path or "\0" in path or drive)


def _relative(path: str) -> str:
    """Return a path that is safe.

    Raises:
        ValueError: It is not.
    """
    if not is_safe(path):
        raise ValueError(f"{path!r} is no relative path below the folder")
    return path


_STRICT = ConfigDict(extra="forbid")
SafePath = Annotated[str, AfterValidator(_relative)]
Count = Annotated[int, Field(ge=0, strict=True)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
Format = Literal["parallel", "snli", "scitail", "dnli", "quora", "agreement", "conllu", "lines", "vectors", "generated"]


@dataclass(frozen=True)
class Remote:
    """A file to download."""

    __pydantic_config__ = _STRICT
    path: SafePath  # below the dataset's folder, with forward slashes
    urls: tuple[str, ...] = ()  # addresses, tried in this order
    sha256: Sha256 | None = None  # None if no checksum is published
    bytes: Count | None = None


@dataclass(frozen=True)
class Part:
    """A part of a file, taken from a download."""

    __pydantic_config__ = _STRICT
    archive: str  # name of the dataset's archive, or single file, that holds it
    member: SafePath | None = None  # name within the archive; None: the download itself
    # None: copied byte for byte; `lines`: one sentence a line; `talks`: tagged training text of IWSLT;
    # `segments`: text between `<seg>` and `</seg>`
    markup: Literal["lines", "talks", "segments"] | None = None
    every: int | None = None  # k: keep every k-th line only
    but_every: int | None = None  # k: leave out every k-th line


@dataclass(frozen=True)
class File(Remote):
    """A file of a split, stored plain or compressed with ``.gz`` after its name."""

    role: str = ""  # role within its split, such as the language of parallel text
    parts: tuple[Part, ...] = ()  # parts to assemble it from; empty if it is downloaded directly

    @property
    def assembled(self) -> bool:
        """True if it is assembled line by line: of several parts, with markup, or of some of the lines.

        No published checksum applies then.
        """
        return len(self.parts) > 1 or any(p.markup or p.every or p.but_every for p in self.parts)


@dataclass(frozen=True)
class Dataset:
    """Entry of the catalogue."""

    __pydantic_config__ = _STRICT
    name: SafePath  # value of `--data`, and name of the folder in the data directory
    tasks: tuple[str, ...]  # tasks that can train on it
    summary: str
    licence: str  # terms of use
    format: Format
    homepage: str | None = None
    citation: str | None = None  # BibTeX
    note: str | None = None  # remarks, such as differences from the data of a paper
    by_hand: str | None = None  # instructions if no address can be fetched
    # published counts by split and unit (pairs, sentences, …)
    sizes: Mapping[str, Mapping[str, Count]] = field(default_factory=dict)
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

    They are the packaged entries, those of plug-ins and of ``datasets/*.yaml`` in the working folder.
    """

    def names(self, task: str | None = None) -> list[str]:
        """Return the sorted names of all datasets, or of those for a task."""
        datasets = {**{name: self.get(name) for name in DATASETS.names()}, **self._datasets, **self._local()}
        return sorted(name for name, dataset in datasets.items() if task is None or task in dataset.tasks)

    def get(self, name: str, *, where: str | None = None) -> Dataset:
        """Return the dataset of that name.

        ``where`` is the place that the error names. Names are searched in the packaged entries, then in plug-ins, then
        in the working folder.

        Raises:
            PhmrunError: (exit 2) The catalogue has no such dataset; the message lists the nearest names. Or a plug-in
                has registered one under the name of a packaged one.
        """
        if name in self._datasets:
            if name in DATASETS.names():
                hint = "Register it under another name."
                raise PhmrunError(f"the dataset name {name!r} is taken", where=DATASETS.places.get(name), hint=hint)
            return self._datasets[name]
        if name in DATASETS.names():
            return read_entry(name, DATASETS.get(name), DATASETS.places.get(name, "catalogue"))
        if name in (local := self._local()):
            return local[name]
        raise unknown("dataset", name, self.names(), where=where)

    def __contains__(self, name: str) -> bool:
        """Return True if there is a dataset of that name; files of the working folder are read for other names only."""
        return name in self._datasets or name in DATASETS.names() or name in self._local()

    def _local(self) -> dict[str, Dataset]:
        """Return the datasets of ``datasets/*.yaml`` in the working folder.

        Files without an entry that has tasks and a format are something else, and left out.

        Raises:
            PhmrunError: A file cannot be read or is not YAML, an entry is invalid, or its name occurs twice, or is
                one of phmrun's or of a plug-in.
        """
        datasets: dict[str, Dataset] = {}
        for path in sorted(Path("datasets").glob("*.yaml")):
            with intact("the datasets of this folder are", path):
                entries = parse_yaml(read_text(path), str(path))
            for name, entry in entries.items() if isinstance(entries, dict) else ():
                if not (isinstance(entry, dict) and {"tasks", "format"} <= entry.keys()):
                    continue
                if name.casefold() in (other.casefold() for other in (*self._datasets, *DATASETS.names(), *datasets)):
                    hint = "Rename it; its files are then in a folder of the new name."
                    raise PhmrunError(f"the dataset name {name!r} is taken", where=path, hint=hint)
                datasets[name] = read_entry(name, entry, str(path))
        return datasets

    @cached_property
    def _datasets(self) -> dict[str, Dataset]:
        """Datasets of the packaged files, by name.

        Entries whose names begin with a dot are shared parts, and left out.
        """
        folder = files("phmrun.datasets") / "entries"
        texts = [path.read_text(encoding="utf-8") for path in folder.iterdir() if path.name.endswith(".yaml")]
        entries = {name: entry for text in texts for name, entry in parse_yaml(text, "catalogue").items()}
        return {name: read_entry(name, entry) for name, entry in entries.items() if not name.startswith(".")}


CATALOGUE = Catalogue()


_validator = cache(lambda: TypeAdapter(Dataset))


def read_entry(name: str, entry: Any, source: str = "catalogue") -> Dataset:
    """Build a dataset from an entry of the catalogue, or of the file ``source``, which errors name.

    Its name must be a relative path. Archives are stored as ``.archives/NAME``, and need an address unless the entry
    has ``by_hand``. Addresses are https, or also http with a checksum.

    Raises:
        PhmrunError: The entry lacks a key, or has an unknown one, an unknown format, or an invalid value.
    """
    label = f"{source}: {name}"
    if str(PurePosixPath(name)) != name:  # "multi30k/" would share multi30k's folder
        raise PhmrunError("the name is no relative path", where=label)
    try:
        expanded = _expanded(entry)
        dataset: Dataset = _validator().validate_python({"name": name, **expanded})
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        place: list[Any] = [label, *fault["loc"]]
        if place[1] == "splits" and len(place) > 3:  # the role in the place of the file's number
            place[3] = expanded["splits"][place[2]][place[3]]["role"]
        where = ".".join(map(str, place))
        if fault["type"] == "unexpected_keyword_argument":
            kinds = {"splits": (File, Part), "archives": (Remote,)}.get(place[1], (Dataset,))
            keys = [key.name for kind in kinds for key in fields(kind)] + ["mirrors"] * (Dataset in kinds)
            raise unknown("key", place[-1], keys, where=where) from error
        raise PhmrunError(fault["msg"], where=where) from error
    except (AttributeError, TypeError, KeyError) as error:
        raise PhmrunError(f"a table is missing or malformed: {error}", where=label) from error
    remotes: dict[str, Remote] = {f"{label}.archives.{key}": archive for key, archive in dataset.archives.items()}
    remotes |= {f"{label}.splits.{split}.{f.role}": f for split, members in dataset.splits.items() for f in members}
    for where, remote in remotes.items():
        parts = remote.parts if isinstance(remote, File) else ()
        if not (remote.urls or parts or (dataset.by_hand and not isinstance(remote, File))):
            raise PhmrunError("there is no address", where=where)
        if any(not url.startswith(("https://", "http://") if remote.sha256 else "https://") for url in remote.urls):
            raise PhmrunError("an address is not https, which one without a checksum must be", where=where)
        if lost := [part.archive for part in parts if part.archive not in dataset.archives]:
            what = f"the archive must be listed, and {lost[0]!r} is not"
            raise PhmrunError(what, where=where, valid=[*dataset.archives])
    return dataset


def _expanded(entry: dict[str, Any]) -> dict[str, Any]:
    """Return an entry with the keys of a :class:`Dataset`: archives with paths, splits as lists of files."""
    archives = {key: {"path": f".archives/{key}", **facts} for key, facts in (entry.get("archives") or {}).items()}
    splits = {split: list(_files(roles, entry)) for split, roles in (entry.get("splits") or {}).items()}
    facts = {key: value for key, value in entry.items() if key != "mirrors"}
    return facts | {"archives": archives, "splits": splits, "sizes": entry.get("sizes") or {}}


def _files(roles: dict[str, Any], entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the files of a split, listed by role.

    If "roles" is among them, "path" and "parts" are a pattern in which ``{role}`` is replaced. A file's "archive" and
    "member" are its first part. Without addresses and parts, the addresses are the entry's mirrors with its path.
    """
    if "roles" in roles:
        pattern = {key: value for key, value in roles.items() if key != "roles"}
        roles = {role: _for_role(pattern, role) for role in roles["roles"]}
    for role, file in roles.items():
        single = {key: file[key] for key in ("archive", "member") if key in file}
        facts = {"role": role} | {key: value for key, value in file.items() if key not in single}
        if single:
            facts["parts"] = [{"archive": None, **single}, *(file.get("parts") or ())]
        elif not file.get("parts"):
            facts.setdefault("urls", [f"{mirror}{file.get('path')}" for mirror in entry.get("mirrors") or ()])
        yield facts


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
