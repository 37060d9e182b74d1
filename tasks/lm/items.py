"""Surprisal of each line of a test text, per item.

A run stores the surprisal of each word in bits with three decimals, so that scores computed again from them are
accurate to about 0.1 %.
"""

import numpy as np

from phmrun.config import load_run_config
from phmrun.engine.preparation import build_data
from phmrun.files import read_text
from phmrun.ledger import Run
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.items import Items, checksum
from phmrun.tasks.lm.preparation import text_lines

KNOWN = "known"
MILLIBITS, WORDS, BYTES, CHARACTERS = range(4)


def read_items(run: Run, split: str, part: str) -> Items | None:
    """Return millibits, words, bytes and characters of each line of a split, ``[lines, 4]``.

    Surprisals come from the run, the text from its data. With the part "known", unknown words do not count; ``None``
    for any other part.

    Raises:
        ValueError: The stored lines are not those of the text.
    """
    if part not in ("", KNOWN):
        return None
    data = build_data(load_run_config(run.config_path))
    stored = read_text(run.predictions / f"{split}.txt").split("\n")[:-1]
    lines = list(text_lines(data.files[split], "reading"))
    rows = []
    for text, line in zip(lines, stored, strict=True):
        millibits = np.rint(1000 * np.array(line.split(), dtype=np.float64))
        if part:
            vocabulary = data.vocabulary
            scored = np.array([*vocabulary.encode(text), vocabulary.end]) != vocabulary.unknown
            millibits = millibits[scored]
        rows.append((millibits.sum(), len(millibits), len(text.encode("utf-8")) + 1, len(text) + 1))
    return Items(np.array(rows, dtype=np.float64), checksum(lines))


def perplexity_of(counts: Counts) -> float:
    """Return the perplexity of lines with these counts of :func:`read_items`."""
    return float(2.0 ** _bits_per(counts, WORDS))


def bits_per_byte_of(counts: Counts) -> float:
    """Return the bits per byte, line ends included, of lines with these counts of :func:`read_items`."""
    return _bits_per(counts, BYTES)


def bits_per_character_of(counts: Counts) -> float:
    """Return the bits per character, line ends included, of lines with these counts of :func:`read_items`."""
    return _bits_per(counts, CHARACTERS)


def _bits_per(counts: Counts, unit: int) -> float:
    """Return the bits per unit, a column of the counts."""
    total = counts.sum(axis=0, dtype=np.float64)
    return float(total[MILLIBITS] / 1000 / max(total[unit], 1))
