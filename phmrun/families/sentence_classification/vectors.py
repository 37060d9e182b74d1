"""Pretrained word vectors in the text format of GloVe: a word and its numbers per line.

Numbers are separated by single spaces. A file is read once and cached by its content, as a list of words and a
memory-mapped array. A first line of two integers (number of words and width), as in word2vec and fastText, is skipped.
"""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.errors import PhmrunError
from phmrun.files import intact, open_regular
from phmrun.progress import progress
from phmrun.text.lines import malformed, numbered_lines
from phmrun.text.store import build_once

VERSION = 1  # increase when the same file results in other contents
CHUNK = 2048  # lines read at a time

Vectors = NDArray[np.float32]


class Found(NamedTuple):
    """Vectors of those words that have one."""

    places: NDArray[np.int64]  # indices of the words, `[found]`
    vectors: Vectors  # `[found, width]`


@dataclass(frozen=True)
class WordVectors:
    """Word vectors on disk."""

    path: Path  # directory in the cache
    words: int  # number of words
    width: int  # numbers of a vector

    def find(self, words: Sequence[str]) -> Found:
        """Return the vectors of those words that have one.

        A word without a vector gets that of the word in lower case. If a word occurs twice in the file, its first
        vector is used. Places are in ascending order. Words without any vector are left out.
        """
        wanted = set(words) | {word.lower() for word in words}
        rows: dict[str, int] = {}
        words_file = open_regular(self.path / "words.txt", most=sys.maxsize)
        with io.TextIOWrapper(words_file, encoding="utf-8", newline="\n") as lines:
            for row, line in enumerate(lines):
                word = line[:-1]
                if word in wanted:
                    rows.setdefault(word, row)
        matches = [(place, rows.get(word, rows.get(word.lower()))) for place, word in enumerate(words)]
        places = np.array([place for place, row in matches if row is not None], dtype=np.int64)
        chosen = np.array([row for _, row in matches if row is not None], dtype=np.int64)
        stored = np.memmap(self.path / "vectors.bin", dtype="<f4", mode="r", shape=(self.words, self.width))
        return Found(places, np.asarray(stored[chosen], dtype=np.float32))


def open_vectors(path: Path, cache: Path) -> WordVectors:
    """Return the vectors of a file (UTF-8, plain or gzip).

    They are converted into ``cache`` unless a file of the same content has been.

    Raises:
        PhmrunError: (exit 3) The file is missing or damaged, a line has a different width than the first, or a value
            is not a finite number. The error names file and line.
    """
    content = {"vectors": VERSION, "sha256": path}
    place, description = build_once(cache, content, lambda directory: _convert(path, directory), "vectors.json")
    with intact("the prepared vectors are", place, "Remove the directory; it is made again."):
        vectors = WordVectors(place, int(description["words"]), int(description["width"]))
        if (place / "vectors.bin").stat().st_size != 4 * vectors.words * vectors.width:
            raise ValueError("vectors.bin has another size than it says")
    return vectors


def _convert(path: Path, directory: Path) -> dict[str, int]:
    """Convert the text file to ``words.txt`` and ``vectors.bin`` in ``directory``.

    A first line of two whole numbers is a header and skipped. The first vector decides the width. Words are one a line,
    vectors 4-byte floats in the same order; repeated words are kept. Progress is shown.

    Returns:
        ``words``, the number of words, and ``width``.

    Raises:
        PhmrunError: (exit 3) The file is malformed or has no vector.
    """
    count = width = 0
    with (
        progress(f"reading {path.name}", None, "words") as advance,
        (directory / "words.txt").open("w", encoding="utf-8", newline="\n") as words,
        (directory / "vectors.bin").open("wb") as numbers,
    ):
        lines = numbered_lines(path)
        first = next(lines)
        cells = first[1].split()
        if not (len(cells) == 2 and all(cell.isdecimal() for cell in cells)):  # no header
            lines = chain([first], lines)
        while chunk := list(islice(lines, CHUNK)):
            if not width:
                width = chunk[0][1].rstrip().count(" ")
            read = [_divided(line, width, f"{path}:{number}") for number, line in chunk]
            vectors = _numbers([numbers for _, numbers in read], width)
            if vectors is None or not np.isfinite(vectors).all():
                raise _first_fault(path, chunk, [numbers for _, numbers in read], width)
            words.writelines(f"{word}\n" for word, _ in read)
            vectors.astype("<f4").tofile(numbers)
            count += len(chunk)
            advance(len(chunk))
    if not count:
        raise malformed("there is no vector in the file", str(path))
    return {"words": count, "width": width}


def _divided(line: str, width: int, where: str) -> tuple[str, str]:
    """Return a line's word, which may contain spaces, and its numbers as text.

    The numbers are the last ``width`` cells between single spaces. White space at the line's end is dropped.

    Raises:
        PhmrunError: (exit 3) The line does not have ``width`` numbers, or has no word.
    """
    line = line.rstrip()
    if line.count(" ") == width:
        word, _, numbers = line.partition(" ")
    else:
        cells = line.rsplit(" ", width)
        word, numbers = cells[0].strip(), " ".join(cells[1:])
        # additional numbers end up in the word
        more = takewhile(_is_number, reversed(word.split(" ")[1:]))
        size = len(cells) - 1 if len(cells) <= width else width + len(list(more))
        if size != width:
            raise malformed(f"the line has {size} numbers where the first line has {width}", where)
    if not word or not width:
        raise malformed("the line is not a word and its numbers", where)
    return word, numbers


def _is_number(text: str) -> bool:
    """Return True if Python reads the text as a float."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _numbers(texts: Sequence[str], width: int) -> Vectors | None:
    """Return the numbers as ``[lines, width]``.

    None if a text is not a number, or a line has another count.
    """
    try:
        read = np.loadtxt(texts, dtype=np.float32, delimiter=" ", comments=None, ndmin=2)
    except ValueError:
        return None
    return read if read.shape == (len(texts), width) else None


def _first_fault(path: Path, chunk: Sequence[tuple[int, str]], texts: Sequence[str], width: int) -> PhmrunError:
    """Return the error (exit 3) for the first invalid line of a chunk.

    Faults are a text that is no number, NaN or a value beyond float32, and any other line that cannot be read. If no
    single line is invalid, the error names the file alone.
    """
    for (number, _), text in zip(chunk, texts, strict=True):
        for cell in text.split(" "):
            if not _is_number(cell):
                return malformed(f"{cell!r} is not a number", f"{path}:{number}")
            if not abs(float(cell)) <= float(np.finfo(np.float32).max):
                return malformed(f"{cell} is not a finite number of single precision", f"{path}:{number}")
        if _numbers([text], width) is None:
            return malformed("the numbers cannot be read", f"{path}:{number}")
    return malformed("the numbers cannot be read", str(path))
