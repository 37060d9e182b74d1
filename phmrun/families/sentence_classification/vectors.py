"""Pretrained word vectors in the text format of GloVe: a word and its numbers per line.

Numbers are separated by single spaces. A file is read once and cached by its content, as a list of words and a
memory-mapped array. A first line of two integers (number of words and width), as in word2vec and fastText, is skipped.
"""

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.errors import data_error
from phmrun.files import intact, open_regular
from phmrun.progress import progress
from phmrun.text.lines import numbered_lines
from phmrun.text.store import build_once

VERSION = 1  # increase when the same file results in other contents
STEP = 2048  # lines between two progress updates

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
        for number, line in lines:
            width = width or line.rstrip().count(" ")
            word, vector = _divided(line, width, f"{path}:{number}")
            words.write(f"{word}\n")
            vector.astype("<f4").tofile(numbers)
            count += 1
            if count % STEP == 0:
                advance(STEP)
    if not count:
        raise data_error("there is no vector in the file", path)
    return {"words": count, "width": width}


def _divided(line: str, width: int, where: str) -> tuple[str, Vectors]:
    """Return a line's word, which may contain spaces, and its numbers, ``[width]``.

    The numbers are the last ``width`` cells between single spaces. White space at the line's end is dropped.

    Raises:
        PhmrunError: (exit 3) The line is no word with ``width`` finite numbers of single precision.
    """
    word, *cells = line.rstrip().rsplit(" ", width)
    word = word if line.count(" ") == width else word.strip()
    try:
        vector = np.array([float(cell) for cell in cells])
    except ValueError as error:
        raise data_error(f"the line is not a word and its numbers: {error}", where) from error
    if not word or len(vector) != max(width, 1) or not (abs(vector) <= np.finfo(np.float32).max).all():
        raise data_error(f"the line is not a word and {max(width, 1)} finite numbers of single precision", where)
    return word, vector.astype(np.float32)
