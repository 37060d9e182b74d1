"""What the cells of a table are to the dense one, by the scores of their seeds and by what their runs predicted.

Imports torch, to read the data that predictions are compared with.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from phmrun.config import Experiment, load_run_config
from phmrun.engine.experiment import build_data
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.metrics.bleu_counts import bleu_counts
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.kinds import kind_of
from phmrun.metrics.parsing import sentence_counts
from phmrun.papers.results import Figure, ResultTable
from phmrun.progress import progress
from phmrun.statistics.decision import Decision, decide
from phmrun.statistics.hierarchical import Comparison, compare_items, compare_scores
from phmrun.statistics.sign_flip import SignFlip, sign_flip
from phmrun.text import conllu
from phmrun.text.parallel import read_parallel

Place = tuple[int, int]
"""Row and column."""


@dataclass(frozen=True)
class Difference:
    """What a cell's score is to the dense one's.

    Attributes:
        comparison: By seeds and test items, or by one of the two.
        decision: What it decides, corrected for the rows of its column.
        flip: The sign-flip test of the seeds that both have; ``None`` without such.
        rows: How many rows of the column were compared.
    """

    comparison: Comparison
    decision: Decision
    flip: SignFlip | None
    rows: int


class Items(NamedTuple):
    """What each test item adds to the counts of a run.

    Attributes:
        counts: ``[items, kinds]``.
        mark: Checksum of what was asked: references, gold labels, gold trees.
        file: Checksum of the file where labels alone could be alike; empty: not on record.
    """

    counts: Counts
    mark: str
    file: str = ""


def differences(table: ResultTable, margin: float | None = None) -> dict[Place, Difference]:
    """By row and column, what a cell is to the dense one, with Holm's correction over the rows of a column.

    A cell is compared with the first dense one of its column, or of its row where the column has none, if both have
    the same score of the same data. Scores that add up over items (BLEU, accuracy, attachment) are compared over seeds
    and items, others over seeds. Runs that were scored on other items than the dense ones are not compared.

    Args:
        table: The results.
        margin: δ; ``None``: the one that is usual for the score; 0: only differences are sought.
    """
    items = _Items()
    found: dict[Place, tuple[Comparison, SignFlip | None]] = {}
    scores: dict[Place, str] = {}
    pairs = list(_pairs(table))
    with progress("comparing with the dense cells", len(pairs), "cells") as advance:
        for place, figure, dense, score in pairs:
            said = compared(figure, dense, score, items)
            if said:
                found[place], scores[place] = said, score
            advance(1)
    made = {}
    for column in range(len(table.headings)):
        places = [place for place in found if place[1] == column]
        if not places:
            continue
        kind = kind_of(scores[places[0]])
        chosen = kind.margin if margin is None else margin
        decided = decide(
            [found[place][0] for place in places], lower_is_better=kind.lower_is_better, margin=chosen or None
        )
        for place, decision in zip(places, decided, strict=True):
            made[place] = Difference(found[place][0], decision, found[place][1], len(places))
    return made


def compared(
    figure: Figure, dense: Figure, score: str, items: "_Items | None" = None
) -> tuple[Comparison, SignFlip | None] | None:
    """A cell and the dense one; ``None`` where nothing can be said, as of runs that were scored on other items."""
    items = items or _Items()
    ours, theirs = _by_seed(figure, score), _by_seed(dense, score)
    paired = list(ours) == list(theirs)
    values = [[value for value, _ in side.values()] for side in (ours, theirs)]
    shared = [ours[seed][0] - theirs[seed][0] for seed in ours if seed in theirs]
    flip = sign_flip(shared) if len(shared) > 1 else None
    measure = kind_of(score).measure
    if measure is not None and "-of-" not in score:
        read = [items.of([path for _, path in side.values()], score) for side in (ours, theirs)]
        if all(read):
            runs = [each for side in read for each in side]
            if len({each.mark for each in runs}) > 1 or len({each.file for each in runs} - {""}) > 1:
                return None
            counts = [[each.counts for each in side] for side in read]
            return compare_items(counts[0], counts[1], measure, paired=paired), flip
    comparison = compare_scores(values[0], values[1], paired=paired)
    return None if comparison is None else (comparison, flip)


def _pairs(table: ResultTable) -> Iterator[tuple[Place, Figure, Figure, str]]:
    """Each cell with the dense one that it is compared with, and the name of the score."""
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            score = table.headings[column].scores[0]
            if figure.runs == 0 or _is_dense(figure):
                continue
            same_score = [one for at, one in enumerate(figures) if table.headings[at].scores[0] == score]
            candidates = [line[column] for line in table.figures] + same_score
            for dense in candidates:
                if dense.runs and _is_dense(dense) and _data(dense) == _data(figure):
                    yield (row, column), figure, dense, score
                    break


def _by_seed(figure: Figure, score: str) -> dict[str, tuple[float, Path]]:
    """The score of each seed, and its run; in the order of the seeds."""
    found = {}
    for entry in figure.entries:
        value = entry.run.score(score) if entry.run else None
        if entry.run is not None and value is not None:
            found[str(entry.seed if entry.seed is not None else entry.run.id)] = (value, entry.run.path)
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))


def _is_dense(figure: Figure) -> bool:
    return all(entry.dense for entry in figure.entries)


def _data(figure: Figure) -> set[str]:
    """The tasks and data of a cell's experiments."""
    return {f"{entry.label('task')} {entry.label('data')}" for entry in figure.entries}


def _kind(score: str) -> str:
    """The score without its split and part: "accuracy" of "test/accuracy-matched"."""
    name = score.partition("/")[2]
    return "accuracy" if _part(score) else name


def _part(score: str) -> str:
    """The part of the items that an accuracy is of; empty: all, or no such score."""
    name = score.partition("/")[2]
    return "" if name.startswith("accuracy-of-") else name.partition("accuracy-")[2]


class _Items:
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


def _counts(path: Path, score: str) -> Items | None:
    """Those of one run; ``None`` where its predictions or its data are not here."""
    split = score.partition("/")[0]
    try:
        if _kind(score) == "accuracy":
            return _of_labels(Run(path), split, _part(score))
        return _READERS[_kind(score)](Run(path), split)
    except (PhmrunError, OSError, ValueError):
        return None


def _of_translations(run: Run, split: str) -> Items:
    outputs = (run.predictions / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = [target for _, target in read_parallel(*build_data(_config(run)).files[split])]
    return Items(bleu_counts(outputs, references), _mark(references))


def _of_labels(run: Run, split: str, part: str) -> Items:
    """Items of a part that were labelled right, of those that were labelled; the gold labels stand beside them."""
    lines = (run.predictions / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    heading = lines[0].split("\t")
    predicted, gold, parts = (heading.index(name) for name in ("predicted", "label", "part"))
    rows = [row for row in (line.split("\t") for line in lines[1:]) if not part or row[parts] == part]
    counts = np.array([[row[predicted] == row[gold], 1] for row in rows], dtype=np.float64)
    return Items(counts, _mark([row[gold] + "\t" + row[parts] for row in rows]), _test_file(run, split))


def _of_trees(run: Run, split: str) -> Items:
    config = _config(run)
    parsed = conllu.load(run.predictions / f"{split}.conllu")
    decoding = config.decoding  # type: ignore[attr-defined]
    gold = build_data(config).sentences(split)  # type: ignore[attr-defined]
    counts = sentence_counts(gold, parsed, decoding.subtypes, decoding.punctuation)
    return Items(counts, _mark([conllu.dumps(gold)]))


def _config(run: Run) -> Experiment:
    return load_run_config(run.config_path)


def _test_file(run: Run, split: str) -> str:
    """The checksum of a split's own file where the run has it on record; the gold labels alone may be alike."""
    marks = run.parameters().get("fingerprints", {})
    return str(marks.get(split, "")) if isinstance(marks, Mapping) else ""


def _mark(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


_READERS: Mapping[str, Callable[[Run, str], Items]] = {
    "bleu": _of_translations,
    "uas": _of_trees,
    "las": _of_trees,
}
