"""What the catalogue knows of a dataset: its splits, their files, and what these are taken out of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

FORMATS = (
    *("parallel", "snli", "scitail", "dnli", "quora", "sick", "agreement", "conllu", "lines", "vectors"),
    "generated",
)
MARKUPS = ("lines", "talks", "segments", "table")


@dataclass(frozen=True)
class Remote:
    """Something to download."""

    path: str  # where it lies below the dataset's folder, with forward slashes
    urls: tuple[str, ...] = ()  # addresses, in the order in which they are tried
    sha256: str | None = None  # its checksum, or None where none could be verified
    bytes: int | None = None  # its size, where known


@dataclass(frozen=True)
class Part:
    """A piece of a file, out of something that is downloaded."""

    archive: str  # name of the dataset's archive, or single file, that holds it
    member: str | None = None  # its name within the archive; None: the download itself
    # None: taken byte for byte. `lines`: one sentence a line; `talks`: the tagged training text of IWSLT;
    # `segments`: what stands between `<seg>` and `</seg>`; `table`: a header and rows.
    markup: str | None = None
    every: int | None = None  # only every so-many-th line
    but_every: int | None = None  # all lines but every so-many-th
    rows: tuple[str, str] | None = None  # only rows of the table that have this value in that column


@dataclass(frozen=True)
class File(Remote):
    """One file of a split. It may lie in the dataset's folder compressed, with ``.gz`` after its name."""

    role: str = ""  # what it is within its split: the language, for parallel text
    parts: tuple[Part, ...] = ()  # what it is put together from, or nothing where it is downloaded by itself

    @property
    def assembled(self) -> bool:
        """Whether it is put together line by line, so that it has no bytes of its owners to compare."""
        return len(self.parts) > 1 or any(part.markup for part in self.parts)


@dataclass(frozen=True)
class Dataset:
    """One entry of the catalogue."""

    name: str  # what `--data` takes, and the name of its folder in the data directory
    tasks: tuple[str, ...]  # names of the tasks that can train on it
    summary: str
    licence: str  # what its owners allow
    format: str  # how its files are read: one of `FORMATS`
    homepage: str | None = None  # where its owners describe it
    citation: str | None = None  # BibTeX
    note: str | None = None  # what else one must know, such as where it departs from what a paper used
    by_hand: str | None = None  # how to get it where no address can be fetched
    # by split and unit (pairs, sentences, …) how many its owners say that there are
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    splits: Mapping[str, tuple[File, ...]] = field(default_factory=dict)
    archives: Mapping[str, Remote] = field(default_factory=dict)  # what files are taken out of, by name

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


def is_safe(path: str) -> bool:
    """Whether a path with forward slashes is relative and stays below the folder that it is taken from."""
    parts = PurePosixPath(path).parts
    drive = len(path) > 1 and path[1] == ":"
    return bool(parts) and not (path.startswith("/") or ".." in parts or "\\" in path or "\0" in path or drive)
