"""Per-item counts of a metric, as returned by the readers of runs, and as compressed text for JSON files."""

import base64
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from phmrun.files import read_text
from phmrun.metrics.bootstrap import Counts

LOSSES = ".losses.tsv"
"""Ending of a file of losses, among the predictions."""


class Items(NamedTuple):
    """Per-item counts of a run's test set.

    Attributes:
        counts: Counts ``[items, kinds]``.
        mark: Checksum of the references, gold labels or gold trees.
        file: Checksum of the data file, if labels alone are ambiguous; empty: not recorded.
    """

    counts: Counts  # ``[items, kinds]``
    mark: str  # checksum of the references, gold labels or gold trees
    file: str = ""  # checksum of the data file, if labels alone are ambiguous; empty: not recorded


def checksum(lines: Sequence[str]) -> str:
    """Return the SHA-256 (hex) of lines joined by line breaks.

    Lines are the references of the scored items, which it identifies.
    """
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def losses_text(losses: Counts) -> str:
    """Return the losses of items ``[items, 2]``, nats and units, as lines "nats, units" with a tab."""
    return "".join(f"{nats:.3f}\t{int(units)}\n" for nats, units in losses.tolist())


def read_losses(run: Any, split: str, part: str) -> Items | None:
    """Return thousandths of a nat and units of each item of a split, ``[items, 2]``; ``None`` for a part of it.

    Units tell runs with other vocabularies apart: their losses a token do not compare.

    Raises:
        OSError: The run has stored no losses.
    """
    if part:
        return None
    rows = [line.split("\t") for line in read_text(run.predictions / f"{split}{LOSSES}").splitlines()]
    counts = np.rint(np.array(rows, dtype=np.float64).reshape(-1, 2) * (1000, 1))
    return Items(counts, checksum([units for _, units in rows]), run.fingerprints().get(split, ""))


def mean_loss(sums: Counts) -> Counts:
    """Return nats a unit from summed counts of :func:`read_losses`: ``[sets, 2] -> [sets]``."""
    return sums[:, 0] / sums[:, 1] / 1000


def packed(items: Items) -> dict[str, Any]:
    """Return the items as a JSON object.

    Keys: "items" (their number), "mark", "file", and "columns", the counts as compressed texts. A text that begins with
    "3-" has column 3 (from 0) minus this one. The shortest text of each column is taken.

    Raises:
        ValueError: A count is no natural number.
    """
    columns: list[str] = []
    for place, column in enumerate(items.counts.T):
        # n-grams of order n + 1 are nearly as many as those of order n: differences are shorter.
        others = ((before, items.counts[:, before] - column) for before in range(place))
        differences = [f"{before}-{_text_of(rest)}" for before, rest in others if (rest >= 0).all()]
        columns.append(min([_text_of(column), *differences], key=len))
    return {"items": len(items.counts), "mark": items.mark, "file": items.file, "columns": columns}


def unpacked(content: Mapping[str, Any]) -> Items:
    """Return the items written by :func:`packed`.

    Raises:
        ValueError: A key is missing, or a column is damaged or has another number of counts than "items".
    """
    try:
        number = int(content["items"])
        columns: list[Counts] = []
        for text in content["columns"]:
            before, minus, rest = text.rpartition("-")
            column = _column_of(rest, number)
            columns.append(columns[int(before)] - column if minus else column)
        return Items(np.stack(columns, axis=1), str(content["mark"]), str(content["file"]))
    except (ArithmeticError, AttributeError, LookupError, TypeError, zlib.error) as error:
        raise ValueError(f"damaged items: {error!r}") from error


def _text_of(column: Counts) -> str:
    """Return a column of counts as compressed text, "bits:base64".

    Each number has as few bits as the greatest needs.

    Raises:
        ValueError: A count is no natural number.
    """
    whole = column.astype(np.int64)
    if not np.array_equal(whole, column) or (whole < 0).any():
        raise ValueError("counts are natural numbers")
    bits = max(int(whole.max(initial=0)).bit_length(), 1)
    spread = (whole[:, None] >> np.arange(bits)) & 1
    data = zlib.compress(np.packbits(spread.T.astype(np.uint8)).tobytes(), 9)
    return f"{bits}:{base64.b64encode(data).decode('ascii')}"


def _column_of(text: str, number: int) -> Counts:
    """Return the ``number`` counts of a text of :func:`_text_of`.

    Raises:
        ValueError, zlib.error: The text is damaged, or has another number of counts.
    """
    width, _, data = text.partition(":")
    bits, limit = int(width), number * 64 // 8 + 8
    if not 1 <= bits <= 63:
        raise ValueError("damaged items: no such width")
    stream = zlib.decompressobj()
    raw = stream.decompress(base64.b64decode(data, validate=True), limit)
    if len(raw) != (bits * number + 7) // 8 or not stream.eof or stream.unused_data:
        raise ValueError("damaged items: a column has another number of counts")
    spread = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=bits * number).reshape(bits, number)
    return (spread.astype(np.int64) << np.arange(bits)[:, None]).sum(0).astype(np.float64)
