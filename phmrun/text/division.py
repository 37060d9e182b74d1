"""Derived text files in the cache: a held-out share, and pairs without empty sides.

A directory is made once per content of the files.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar, cast

from phmrun.errors import data_error
from phmrun.progress import note
from phmrun.text.lines import LONGEST_PARAGRAPH, numbered_lines, read_parallel
from phmrun.text.store import build_once

Files = tuple[Path, ...]
Sides = TypeVar("Sides", bound=tuple[Path, ...])
Row = tuple[str, ...]
LAST = "lines.json"
"""File that is written last and marks a complete directory."""


def held_out(files: Sides, share: float, cache: Path, *, running: bool = False) -> tuple[Sides, Sides]:
    """Split training files into a training and a held-out part, in the cache.

    A line is held out if :func:`fraction` of its source text is below ``share``, so that equal sentences stay together.
    Of running text, the last lines are held out.

    Args:
        files: One file, or source and target.
        share: Share of the lines to hold out, approximately.
        cache: Directory of prepared data.
        running: True if the lines form running text.

    Returns:
        Files of the training part, and of the held-out part.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed, or a part would be empty.
    """
    begin = (1 - share) * sum(1 for _ in _rows(files)) if running else 0.0

    def part(number: int, row: Row) -> str:
        """Return the part of a line, "dev" or "train", by its number or its source text."""
        held = number >= begin if running else fraction(row[0]) < share
        return "dev" if held else "train"

    path = _made("held-out", files, {"share": share, "running": running}, ("train", "dev"), part, cache)
    train, dev = (tuple(path / f"{split}.{side}" for side in _sides(files)) for split in ("train", "dev"))
    return cast(Sides, train), cast(Sides, dev)


def without_empty(files: tuple[Path, Path], cache: Path) -> tuple[Path, Path]:
    """Return copies of aligned files without half-empty pairs.

    They are in the cache. A pair is left out if either side is empty or white space. Without such pairs, the files
    themselves. A note on stderr says how many are left out.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """
    empty = total = 0
    for row in _rows(files, empty=True):
        total += 1
        empty += not all(side.strip() for side in row)
    if not empty:
        return files
    note(f"{empty:,} of {total:,} pairs have an empty side and are left out: {files[0]}, {files[1]}")
    path = _made("not-empty", files, {}, ("kept",), lambda _, row: "kept" if all(map(str.strip, row)) else None, cache)
    return path / "kept.source", path / "kept.target"


def fraction(text: str) -> float:
    """Return a number from 0 to below 1 that depends on the text alone.

    It is the first 64 bits of the text's SHA-256, divided by 2^64.
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64


def _sides(files: Files) -> tuple[str, ...]:
    """Return the files' names in the cache: "text", or "source" and "target"."""
    return ("text",) if len(files) == 1 else ("source", "target")


def _rows(files: Files, *, empty: bool = False) -> Iterator[Row]:
    """Yield the lines of one file, or of two in parallel.

    Empty lines of a single file are included, pairs with an empty side if ``empty``. A line of a single file has at
    most 16 MiB, of two files at most 1 MiB.

    Raises:
        PhmrunError: (exit 3) A file is malformed; the message names it and the line.
    """
    if len(files) == 1:
        return ((line,) for _, line in numbered_lines(files[0], longest=LONGEST_PARAGRAPH))
    return read_parallel(*files, empty=empty)


def _made(
    kind: str,
    files: Files,
    settings: dict[str, float],
    parts: Sequence[str],
    part: Callable[[int, Row], str | None],
    cache: Path,
) -> Path:
    """Return a cached directory with lines sorted into parts.

    It is built if it is missing or damaged. ``part`` returns the name of a line's part from its number (from 0) and its
    texts; lines for which it returns None are left out. Files are named ``part.side``.

    Raises:
        PhmrunError: (exit 3) A part would be empty, or a file is malformed.
    """

    def write(path: Path) -> dict[str, int]:
        """Write the files ``part.side``, and return the number of lines by part.

        Raises:
            PhmrunError: (exit 3) A part has no line, or a file is malformed.
        """
        counts = dict.fromkeys(parts, 0)
        with ExitStack() as stack:
            handles = {
                name: [stack.enter_context((path / f"{name}.{side}").open("w", encoding="utf-8")) for side in sides]
                for name in parts
            }
            for number, row in enumerate(_rows(files, empty=kind == "not-empty")):
                if (name := part(number, row)) is not None:
                    counts[name] += 1
                    for handle, text in zip(handles[name], row, strict=True):
                        handle.write(f"{text}\n")
        # Raised before the directory gets its final name, so that nothing is kept.
        for name, count in counts.items():
            if not count:
                where = "data.hold_out" if kind == "held-out" else str(files[0])
                raise data_error(f"too few lines: none are left for {name}", where)
        return counts

    sides = _sides(files)
    return build_once(cache, {"kind": kind, "files": files, **settings}, write, LAST)[0]
