"""Readers of subject–verb agreement items (Linzen et al., 2016): the words before a verb, and the verb's number.

Two formats, recognized by the first line:

``rnn_agr_simple``
    ``VBZ`` or ``VBP``, a tab, the words before the verb. The file ``numpred.test.3`` holds the items with three
    attractors, that is nouns between subject and verb whose number is not the subject's.
``agr_50_mostcommon_10K.tsv``
    A table with a header: sentence, verb and its position, and how many nouns intervene, of either number.
"""

import csv
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from phmrun.errors import counted, data_error
from phmrun.text.lines import columns_fault, numbered_lines

LABELS = ("VBZ", "VBP")
"""Singular and plural verb, in the order of their indices."""
TRAIN_SHARE, DEV_SHARE = 0.09, 0.01
SAMPLE = "`phmrun schema sva --files` prints a sample."
_ATTRACTORS = re.compile(r"\.test\.(\d)(\.gz)?$")
_COUNTS = ("verb_index", "n_intervening", "n_diff_intervening")
_COLUMNS = ("sentence", "verb_pos", *_COUNTS)


class Item(NamedTuple):
    """A verb whose number is predicted from the words before it.

    Attributes:
        prefix: The words before the verb, with single spaces.
        label: One of ``LABELS``.
        attractors: Number of nouns between subject and verb with the other number; None if the file does not tell.
        homogeneous: True if all nouns between subject and verb have one number; None if unknown.
    """

    prefix: str
    label: str
    attractors: int | None = None
    homogeneous: bool | None = None


def read_agreement(path: Path) -> Iterator[Item]:
    """Yield the agreement items of a file, one at a time.

    The file is UTF-8, plain or gzip. The first line decides the format. A file named ``….test.K`` has items with K
    attractors; in others of that format the number is ``None``. ``homogeneous`` is True with K, else ``None``; the
    table tells both.

    Raises:
        PhmrunError: (exit 3) The file is missing, damaged or of an unknown format; the message names file and line.
    """
    lines = numbered_lines(path)
    first = next(lines)
    if first[1].split("\t")[0] not in LABELS:
        yield from _table(first[1], lines, path)
        return
    implied = _ATTRACTORS.search(path.name)  # files by attractors hold homogeneous items alone
    attractors = int(implied[1]) if implied else None
    for number, line in itertools.chain([first], lines):
        cells, where = line.split("\t"), f"{path}:{number}"
        if len(cells) != 2:
            form = f"instead of 2 separated by a tab: {' or '.join(LABELS)}, the words before the verb"
            raise data_error(columns_fault(cells, form), where, SAMPLE)
        yield _item(cells[1], cells[0], attractors, True if implied else None, where)


def divide(items: Sequence[Item]) -> dict[str, list[Item]]:
    """Divide the full table into train, dev and test.

    Train has the first 9 % of the shuffled items and dev the next 1 %, rounded down; the rest is test. The test set
    keeps only items with ``homogeneous`` true: their intervening nouns are all attractors, or they have none. The order
    is that of ``random.shuffle`` with seed 1 under Python 2, which differs from Python 3's.
    """
    draw = random.Random(1).random
    order = list(range(len(items)))
    for last in range(len(order) - 1, 0, -1):
        chosen = int(draw() * (last + 1))
        order[last], order[chosen] = order[chosen], order[last]
    train = int(len(order) * TRAIN_SHARE)
    dev = train + int(len(order) * DEV_SHARE)
    return {
        "train": [items[index] for index in order[:train]],
        "dev": [items[index] for index in order[train:dev]],
        "test": [items[index] for index in order[dev:] if items[index].homogeneous],
    }


def _table(first: str, lines: Iterator[tuple[int, str]], path: Path) -> Iterator[Item]:
    """Yield the items of the rows below the header ``first``.

    Fields may be quoted. The prefix has the words before ``verb_index`` (from 1), the label is ``verb_pos``. Attractors
    are ``n_diff_intervening``; an item is homogeneous if they equal ``n_intervening``.

    Raises:
        PhmrunError: (exit 3) A column is missing, a row is malformed, or there is none.
    """
    header = first.split("\t")
    missing = [column for column in _COLUMNS if column not in header]
    if missing:
        what = f"neither a line of {' or '.join(LABELS)}, a tab and words, nor a header: no {', '.join(missing)}"
        raise data_error(what, f"{path}:1", SAMPLE)
    rows = csv.reader((f"{line}\n" for _, line in lines), delimiter="\t")
    try:
        for cells in rows:
            # The header was read before: csv's line 1 is line 2 of the file.
            where = f"{path}:{rows.line_num + 1}"
            if len(cells) != len(header):
                raise data_error(columns_fault(cells, f"where the header has {len(header)}"), where)
            row = dict(zip(header, cells, strict=True))
            words = row["sentence"].split()
            try:
                position, between, different = (int(row[column]) for column in _COUNTS)
            except ValueError as error:
                raise data_error(f"not a count: {error}"[:100], where) from error
            if not (1 <= position <= len(words) and 0 <= different <= between):
                counts = ", ".join(f"{column} {row[column]:.20}" for column in _COUNTS)
                raise data_error(f"the counts do not fit a sentence of {counted(len(words), 'word')}: {counts}", where)
            yield _item(" ".join(words[: position - 1]), row["verb_pos"], different, different == between, where)
    except csv.Error as error:
        raise data_error(f"not a table: {error}", f"{path}:{rows.line_num + 1}") from error
    if not rows.line_num:
        raise data_error("the table has no rows", path)


def _item(prefix: str, label: str, attractors: int | None, homogeneous: bool | None, where: str) -> Item:
    """Build an item.

    White space of the prefix becomes single spaces.

    Raises:
        PhmrunError: (exit 3) The label is unknown, or there is no word.
    """
    if label not in LABELS:
        raise data_error(f"the label is {label!r} instead of {' or '.join(LABELS)}", where)
    words = prefix.split()
    if not words:
        raise data_error("there is no word before the verb", where)
    return Item(" ".join(words), label, attractors, homogeneous)
