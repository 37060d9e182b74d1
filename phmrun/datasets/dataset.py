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
    """Something to download.

    Args:
        path: Where it lies below the dataset's folder, with forward slashes.
        urls: Addresses, in the order in which they are tried.
        sha256: Its checksum, or None where none could be verified.
        bytes: Its size, where known.
    """

    path: str
    urls: tuple[str, ...] = ()
    sha256: str | None = None
    bytes: int | None = None


@dataclass(frozen=True)
class Part:
    """A piece of a file, out of something that is downloaded.

    Args:
        archive: Name of the dataset's archive, or single file, that holds it.
        member: Its name within the archive; None: the download itself.
        markup: None: taken byte for byte. ``lines``: one sentence a line; ``talks``: the tagged training text of IWSLT;
            ``segments``: what stands between ``<seg>`` and ``</seg>``; ``table``: a header and rows.
        every: Only every so-many-th line.
        but_every: All lines but every so-many-th.
        rows: Only rows of the table that have this value in that column.
    """

    archive: str
    member: str | None = None
    markup: str | None = None
    every: int | None = None
    but_every: int | None = None
    rows: tuple[str, str] | None = None


@dataclass(frozen=True)
class File(Remote):
    """One file of a split. It may lie in the dataset's folder compressed, with ``.gz`` after its name.

    Args:
        role: What it is within its split: the language, for parallel text.
        parts: What it is put together from, or nothing where it is downloaded by itself.
    """

    role: str = ""
    parts: tuple[Part, ...] = ()

    @property
    def assembled(self) -> bool:
        """Whether it is put together line by line, so that it has no bytes of its owners to compare."""
        return len(self.parts) > 1 or any(part.markup for part in self.parts)


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
        note: What else one must know, such as where it departs from what a paper used.
        by_hand: How to get it where no address can be fetched.
        sizes: By split and unit (pairs, sentences, …) how many its owners say that there are.
        splits: Files by split.
        archives: What files are taken out of, by name.
    """

    name: str
    tasks: tuple[str, ...]
    summary: str
    licence: str
    format: str
    homepage: str | None = None
    citation: str | None = None
    note: str | None = None
    by_hand: str | None = None
    sizes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
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


def is_safe(path: str) -> bool:
    """Whether a path with forward slashes is relative and stays below the folder that it is taken from."""
    parts = PurePosixPath(path).parts
    drive = len(path) > 1 and path[1] == ":"
    return bool(parts) and not (path.startswith("/") or ".." in parts or "\\" in path or "\0" in path or drive)
