"""Which cells of a table differ from the dense one's, by what their runs predicted. Imports torch, to read the data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from phmrun.config import Experiment, load_run_config
from phmrun.engine.experiment import build_data
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.metrics.bleu_counts import bleu_counts, bleu_of
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.parsing import ARCS, HEADS, WORDS, sentence_counts
from phmrun.metrics.significance import Difference, Measure, paired_bootstrap
from phmrun.papers.results import Figure, ResultTable
from phmrun.progress import progress
from phmrun.text import conllu
from phmrun.text.parallel import read_parallel


def differences(table: ResultTable) -> dict[tuple[int, int], Difference]:
    """By row and column, the difference of a cell's score from the dense one's.

    A cell is compared with the first dense one of its column, or of its row where the column has none, if both have
    the same score of the same data. Only scores that add up over items can be tested: BLEU, accuracy, attachment.
    """
    items = _Items()
    found = {}
    pairs = list(_pairs(table))
    with progress("comparing with the dense cells", len(pairs), "cells") as advance:
        for place, figure, dense, score in pairs:
            measured = [items.of(_runs(one, score), score) for one in (figure, dense)]
            if all(measured) and len({len(counts) for side in measured for counts in side}) == 1:
                found[place] = paired_bootstrap(measured[0], measured[1], MEASURES[_kind(score)])
            advance(1)
    return found


def _pairs(table: ResultTable) -> Iterator[tuple[tuple[int, int], Figure, Figure, str]]:
    """Each cell with the dense one that it is compared with, and the name of the score."""
    for row, figures in enumerate(table.figures):
        for column, figure in enumerate(figures):
            score = table.headings[column].scores[0]
            if figure.runs == 0 or _is_dense(figure) or _kind(score) not in MEASURES:
                continue
            same_score = [one for at, one in enumerate(figures) if table.headings[at].scores[0] == score]
            candidates = [line[column] for line in table.figures] + same_score
            for dense in candidates:
                if dense.runs and _is_dense(dense) and _data(dense) == _data(figure):
                    yield (row, column), figure, dense, score
                    break


def _is_dense(figure: Figure) -> bool:
    return all(entry.dense for entry in figure.entries)


def _data(figure: Figure) -> set[str]:
    """The tasks and data of a cell's experiments."""
    return {f"{entry.label('task')} {entry.label('data')}" for entry in figure.entries}


def _runs(figure: Figure, score: str) -> list[Path]:
    return [entry.run.path for entry in figure.entries if entry.run and entry.run.score(score) is not None]


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
        self._read: dict[tuple[Path, str], Counts | None] = {}

    def of(self, runs: Sequence[Path], score: str) -> list[Counts]:
        """Of every run; none at all where one cannot be read."""
        for path in runs:
            if (path, score) not in self._read:
                self._read[path, score] = _counts(path, score)
        counts = [self._read[path, score] for path in runs]
        return [each for each in counts if each is not None] if all(each is not None for each in counts) else []


def _counts(path: Path, score: str) -> Counts | None:
    """``[items, kinds]`` of one run; ``None`` where its predictions or its data are not here."""
    split = score.partition("/")[0]
    try:
        if _kind(score) == "accuracy":
            return _of_labels(Run(path), split, _part(score))
        return _READERS[_kind(score)](Run(path), split)
    except (PhmrunError, OSError, ValueError):
        return None


def _of_translations(run: Run, split: str) -> Counts:
    outputs = (run.predictions / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]
    references = [target for _, target in read_parallel(*build_data(_config(run)).files[split])]
    return bleu_counts(outputs, references)


def _of_labels(run: Run, split: str, part: str) -> Counts:
    """Items of a part that were labelled right, of those that were labelled; the gold labels stand beside them."""
    lines = (run.predictions / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    heading = lines[0].split("\t")
    predicted, gold, parts = (heading.index(name) for name in ("predicted", "label", "part"))
    rows = [row for row in (line.split("\t") for line in lines[1:]) if not part or row[parts] == part]
    return np.array([[row[predicted] == row[gold], 1] for row in rows], dtype=np.float64)


def _of_trees(run: Run, split: str) -> Counts:
    config = _config(run)
    parsed = conllu.load(run.predictions / f"{split}.conllu")
    decoding = config.decoding  # type: ignore[attr-defined]
    gold = build_data(config).sentences(split)  # type: ignore[attr-defined]
    return sentence_counts(gold, parsed, decoding.subtypes, decoding.punctuation)


def _config(run: Run) -> Experiment:
    return load_run_config(run.config_path)


def _share(of: int, among: int) -> Measure:
    def measure(sums: Counts) -> Counts:
        return 100 * sums[:, of] / np.maximum(sums[:, among], 1)

    return measure


MEASURES: Mapping[str, Measure] = {
    "bleu": bleu_of,
    "accuracy": _share(0, 1),
    "uas": _share(HEADS, WORDS),
    "las": _share(ARCS, WORDS),
}
"""Scores that can be tested."""

_READERS: Mapping[str, Callable[[Run, str], Counts]] = {
    "bleu": _of_translations,
    "uas": _of_trees,
    "las": _of_trees,
}
