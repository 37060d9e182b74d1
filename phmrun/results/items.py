"""Counts that each test item adds to a run's score: from its predictions, or as recorded.

Imports torch when predictions are read, since they are compared with the task's data.
"""

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from phmrun.config import load_run_config
from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import read_regular
from phmrun.ledger import Run
from phmrun.ledger.record import ITEMS
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.kinds import kind_of
from phmrun.metrics.parsing import sentence_counts
from phmrun.metrics.translation import bleu_counts
from phmrun.registry import load
from phmrun.text import conllu
from phmrun.text.lines import read_parallel


class Items(NamedTuple):
    """What each test item adds to the counts of a run."""

    counts: Counts  # ``[items, kinds]``
    mark: str  # checksum of what was asked: references, gold labels, gold trees
    file: str = ""  # checksum of the file where labels alone could be alike; empty: not on record


Reader = Callable[[Run, str, str], Items | None]
"""Items of a run, by a split and a part of it ("": all); ``None``, or a ``PhmrunError``, where they cannot be had."""


class RunItems:
    """What each test item adds to the counts of a run, read once."""

    def __init__(self) -> None:
        self._read: dict[tuple[Path, str], Items | None] = {}

    def of(self, runs: Sequence[Path], score: str) -> list[Items]:
        """Of every run; none at all where one cannot be read."""
        for path in runs:
            if (path, score) not in self._read:
                self._read[path, score] = _counts(path, score)
        counts = [self._read[path, score] for path in runs]
        return [each for each in counts if each is not None] if all(each is not None for each in counts) else []


def to_json(run: Run, score: str) -> dict[str, Any] | None:
    """What the items add to a score, as JSON; ``None`` where it has no items, or they cannot be read."""
    items = _counts(run.path, score) if kind_of(score).measure is not None and "-of-" not in score else None
    if items is None:
        return None
    columns = [_packed(items.counts[:, place]) for place in range(items.counts.shape[1])]
    return {"items": len(items.counts), "mark": items.mark, "file": items.file, "columns": columns}


def from_json(content: Mapping[str, Any]) -> Items:
    """The items that :func:`to_json` wrote; a ``ValueError`` says that they are damaged."""
    try:
        number = int(content["items"])
        columns = [_unpacked(text, number) for text in content["columns"]]
        return Items(np.stack(columns, axis=1), str(content["mark"]), str(content["file"]))
    except (ArithmeticError, KeyError, TypeError, zlib.error) as error:
        raise ValueError(f"damaged items: {error!r}") from error


def _packed(column: Counts) -> str:
    """A column of counts as text: each number in as few bits as the greatest takes, compressed."""
    whole = column.astype(np.int64)
    if not np.array_equal(whole, column) or (whole < 0).any():
        raise ValueError("counts are natural numbers")
    bits = max(int(whole.max(initial=0)).bit_length(), 1)
    spread = (whole[:, None] >> np.arange(bits)) & 1
    data = zlib.compress(np.packbits(spread.T.astype(np.uint8)).tobytes(), 9)
    return f"{bits}:{base64.b64encode(data).decode('ascii')}"


def _unpacked(text: str, number: int) -> Counts:
    width, _, data = text.partition(":")
    bits, limit = int(width), number * 64 // 8 + 8
    if not 1 <= bits <= 63:
        raise ValueError("damaged items: no such width")
    raw = zlib.decompressobj().decompress(base64.b64decode(data, validate=True), limit)
    spread = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=bits * number).reshape(bits, number)
    return (spread.astype(np.int64) << np.arange(bits)[:, None]).sum(0).astype(np.float64)


def _counts(path: Path, score: str) -> Items | None:
    """Those of one run; ``None`` where its predictions or its data are not here."""
    split, _, name = score.partition("/")
    try:
        if (path / ITEMS).is_file():
            recorded = parse_json(read_regular(path / ITEMS))
            return from_json(recorded[score]) if score in recorded else None
        place = kind_of(score).items
        part = name.partition("-")[2]  # "matched" of "test/accuracy-matched" is the part of the items that it is of
        if place is None or "-of-" in name:
            return None
        read: Reader = load(place)
        return read(Run(path), split, part)
    except (PhmrunError, OSError, ValueError):
        return None


def of_translations(run: Run, split: str, part: str) -> Items | None:
    """The counts of BLEU of each translation: of all, or of those that the data count to ``part``, if they do."""
    from phmrun.engine.experiment import build_data  # imports torch

    outputs = (run.predictions / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]
    data = build_data(load_run_config(run.config_path))
    references = [target for _, target in read_parallel(*data.files[split])]
    if part:
        parts: Mapping[str, Path] = data.parts  # type: ignore[attr-defined]
        if split not in parts:
            return None
        names = parts[split].read_text(encoding="utf-8").split("\n")[: len(outputs)]
        kept = [row for row, name in enumerate(names) if name == part]
        outputs, references = [outputs[row] for row in kept], [references[row] for row in kept]
    return Items(bleu_counts(outputs, references), _mark(references))


def of_labels(run: Run, split: str, part: str) -> Items:
    """Items of a part, or all, that were labelled right, of those that were labelled; the gold labels beside them."""
    lines = (run.predictions / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    heading = lines[0].split("\t")
    predicted, gold, parts = (heading.index(name) for name in ("predicted", "label", "part"))
    rows = [row for row in (line.split("\t") for line in lines[1:]) if not part or row[parts] == part]
    counts = np.array([[row[predicted] == row[gold], 1] for row in rows], dtype=np.float64)
    file = run.fingerprints().get(split, "")  # where it is on record; the gold labels alone may be alike
    return Items(counts, _mark([row[gold] + "\t" + row[parts] for row in rows]), file)


def of_trees(run: Run, split: str, part: str) -> Items | None:
    """Words, right heads and right arcs of each sentence; of a part, nothing is on record."""
    from phmrun.engine.experiment import build_data  # imports torch

    if part:
        return None
    config = load_run_config(run.config_path)
    parsed = conllu.load(run.predictions / f"{split}.conllu")
    decoding = config.decoding  # type: ignore[attr-defined]
    gold = build_data(config).sentences(split)  # type: ignore[attr-defined]
    counts = sentence_counts(gold, parsed, decoding.subtypes, decoding.punctuation)
    return Items(counts, _mark([conllu.dumps(gold)]))


def _mark(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
