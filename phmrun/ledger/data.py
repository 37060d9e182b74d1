"""What a run was trained and tested on: ``data.json``, the files of every split with their checksums."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from phmrun.files import content_sha256

DIGITS = 12
"""Hexadecimal digits of a checksum in a score's signature."""


@dataclass(frozen=True)
class Source:
    """A file that a split is read from.

    Attributes:
        path: Where it lay, absolute.
        sha256: Checksum of its content, decompressed if it is compressed by gzip.
        bytes: Its size on disk.
    """

    path: str
    sha256: str
    bytes: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """The file as it is now.

        Raises:
            PhmrunError: (exit 3) It is missing or damaged.
        """
        return cls(str(path.absolute()), content_sha256(path), path.stat().st_size)


@dataclass(frozen=True)
class Split:
    """The files of a split, in the order in which they are read."""

    files: tuple[Source, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Self:
        """The files as they are now.

        Raises:
            PhmrunError: (exit 3) One of them is missing or damaged.
        """
        return cls(tuple(Source.of(path) for path in paths))

    @property
    def sha256(self) -> str:
        """One checksum for the split: its file's, or of the lines of its files' checksums."""
        sums = [file.sha256 for file in self.files]
        return sums[0] if len(sums) == 1 else hashlib.sha256("".join(f"{each}\n" for each in sums).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """The checksum as it stands in a score's signature."""
        return self.sha256[:DIGITS]


@dataclass(frozen=True)
class DataRecord:
    """The content of ``data.json``.

    Attributes:
        splits: The files of each split.
        fingerprints: The checksums that are part of the run's name, of text, plug-ins and the run that it extends.
    """

    splits: Mapping[str, Split] = field(default_factory=dict)
    fingerprints: Mapping[str, str] = field(default_factory=dict)

    def name_of(self, split: Split) -> str | None:
        """The name of the split that has this content, wherever its files lie now."""
        names = [name for name, each in self.splits.items() if each.sha256 == split.sha256]
        return next((name for name in names if name == "test"), names[0] if names else None)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        splits = {
            name: {"sha256": split.sha256, "files": [asdict(file) for file in split.files]}
            for name, split in self.splits.items()
        }
        return {"fingerprints": dict(self.fingerprints), "splits": splits}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """The record that a JSON object holds.

        Raises:
            ValueError: It is none.
        """
        try:
            splits = {
                str(name): Split(
                    tuple(Source(str(e["path"]), str(e["sha256"]), int(e["bytes"])) for e in split["files"])
                )
                for name, split in content["splits"].items()
            }
            return cls(splits, {str(key): str(value) for key, value in content["fingerprints"].items()})
        except (ArithmeticError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no record of a run's data: {error!r}") from error
