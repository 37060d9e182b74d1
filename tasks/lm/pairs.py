"""Minimal pairs: an acceptable sentence beside an unacceptable one, as in BLiMP (Warstadt et al. 2020).

A file has JSON objects, one a line, with ``sentence_good`` and ``sentence_bad``; ``linguistics_term`` names the
phenomenon, ``UID`` the paradigm. A model is right if the acceptable sentence has the higher probability.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.datasets import data_dir
from phmrun.documents import parse_json
from phmrun.errors import PhmrunError, data_error
from phmrun.metrics import Score
from phmrun.metrics.accuracy import LabelPair, accuracy
from phmrun.progress import progress
from phmrun.text.lines import numbered_lines

GOOD, BAD = "good", "bad"
SAMPLE = '{"sentence_good": "The dogs run.", "sentence_bad": "The dogs runs."}'
HEADING = ("predicted", "label", "part", "paradigm", "nats of good", "nats of bad", "good", "bad")
CHUNK = 2048
"""Pairs that are sorted by length and scored together."""


class Pair(NamedTuple):
    """A minimal pair, its phenomenon and its paradigm, both perhaps empty, and its place, ``file:line``."""

    good: str
    bad: str
    phenomenon: str
    paradigm: str
    where: str


class MinimalPairs:
    """Minimal pairs of a file, of a folder of files, or of a folder of this name in the data directory.

    Args:
        name: "blimp", or a path.

    Raises:
        PhmrunError: (exit 3) There is no such file or folder, or no file of pairs in it.
    """

    def __init__(self, name: str) -> None:
        place = next((path for path in (Path(name), data_dir() / name) if path.exists()), Path(name))
        files = sorted(place.glob("*.jsonl*")) if place.is_dir() else [place]
        self.paths = [path for path in files if path.is_file() and (not place.is_dir() or _has_pairs(path))]
        if not self.paths:
            what = f"there are no minimal pairs called {name!r}, neither here nor in the data directory"
            hint = f"A line of a file .jsonl: {SAMPLE}. BLiMP is searched for in {data_dir() / 'blimp'}."
            raise data_error(what, "--pairs", hint)
        name = place.resolve().name.removesuffix(".gz").removesuffix(".jsonl")
        self.name = f"pairs-{name}" if name in ("train", "validation", "val", "dev", "test") else name
        self.files = {self.name: self.pairs}

    def sources(self, split: str) -> Sequence[Path]:
        """Return the files."""
        return self.paths

    def pairs(self) -> Iterator[Pair]:
        """Yield the pairs, file by file.

        Raises:
            PhmrunError: (exit 3) A line is no JSON object with both sentences.
        """
        for path in self.paths:
            for number, line in numbered_lines(path):
                if line.strip():
                    yield _pair(line, f"{path}:{number}")


def _has_pairs(path: Path) -> bool:
    """Return True if a file's first line that is not blank has both sentences."""
    first = ""
    with suppress(PhmrunError):  # an empty file, or one that is no text
        first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    return '"sentence_good"' in first and '"sentence_bad"' in first


def _pair(line: str, where: str) -> Pair:
    """Return the pair of a line.

    Raises:
        PhmrunError: (exit 3) It is no JSON object with both sentences.
    """
    try:
        content = parse_json(line)
        good, bad = content["sentence_good"], content["sentence_bad"]
        if not all(isinstance(text, str) and text.strip() for text in (good, bad)):
            raise ValueError("an empty sentence")
    except (ValueError, LookupError, TypeError) as error:
        what = "the line is no JSON object with sentence_good and sentence_bad"
        raise data_error(what, where, f"Write: {SAMPLE}") from error
    part, paradigm = ("_".join(str(content.get(key) or "").split()) for key in ("linguistics_term", "UID"))
    return Pair(good, bad, part or paradigm, paradigm, where)


def judged(
    data: MinimalPairs, nats: Callable[[Sequence[str], Sequence[str]], NDArray[np.float64]]
) -> tuple[dict[str, Score], list[str], int]:
    """Judge pairs by the log-probabilities of their sentences.

    Args:
        data: The pairs.
        nats: Function from sentences and their places to their -log p, ``[sentences]``, in nats.

    Returns:
        Scores "accuracy", of all pairs and of each phenomenon, and "accuracy-of-chance"; the lines of the file of
        predictions; the number of pairs. Equal probabilities are wrong.
    """
    counts = Counter[LabelPair]()
    rows = ["\t".join(HEADING) + "\n"]
    pairs = list(data.pairs())
    with progress(f"judging {data.name}", len(pairs), "pairs") as advance:
        for begin in range(0, len(pairs), CHUNK):
            chunk = pairs[begin : begin + CHUNK]
            places = [pair.where for pair in chunk for _ in (GOOD, BAD)]
            values = nats([text for pair in chunk for text in (pair.good, pair.bad)], places).reshape(-1, 2)
            for pair, (good, bad) in zip(chunk, values.tolist(), strict=True):
                predicted = GOOD if good < bad else BAD
                counts[LabelPair(GOOD, predicted, pair.phenomenon)] += 1
                texts = [" ".join(text.split()) for text in (pair.good, pair.bad)]
                kinds = (predicted, GOOD, pair.phenomenon, pair.paradigm)
                rows.append("\t".join([*kinds, f"{good:.4f}", f"{bad:.4f}", *texts]) + "\n")
            advance(len(chunk))
    scores = accuracy(counts)
    scores["accuracy-of-chance"] = Score("accuracy of chance", 50.0, "guess:one-of-two", len(pairs), "items")
    return scores, rows, len(pairs)
