"""Data of style transfer, and its measures beside BLEU: copied sentences, sentences in the target style.

Copying the source scores 19.7 BLEU on Shakespeare's plays, above every published model. Two measures show it: the share
of outputs that equal their source, and the share that a classifier assigns to the target style (as in Shen et al.
2017). The classifier is a logistic regression on words and word bigrams of the training sentences. Both are also
measured for copied sources and for references; a model should lie in between.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from phmrun.config import load_run_config
from phmrun.engine.data import build_data as data_of
from phmrun.errors import data_error
from phmrun.families.sequence_to_sequence.data import OutputMeasure, ParallelData, build_parallel_data, builtin_pairs
from phmrun.families.sequence_to_sequence.items import read_outputs
from phmrun.ledger import Run
from phmrun.metrics import Score
from phmrun.metrics.accuracy import wilson
from phmrun.metrics.items import Items, checksum
from phmrun.progress import note
from phmrun.tasks.style.config import StyleExperiment
from phmrun.text.lines import read_parallel
from phmrun.text.store import build_once
from phmrun.text.words import learn_labels, spaced

STYLES = ("modern", "original")
COPIED = ("train.source", "train.target")


def build_data(config: StyleExperiment, cache: Path) -> ParallelData:
    """Build the data module of an experiment.

    Prepared corpora are in ``cache``. With training data, its outputs are also measured by
    :func:`~phmrun.tasks.style.data.measures`, and ``data.copies`` are added to it. The measures learn from pairs
    without copies.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine, or all training pairs have equal sides.
    """
    data = build_parallel_data(config, cache, partial(builtin_pairs, "style", STYLES))
    if "train" in data.files:
        train = partial(read_parallel, *data.files["train"])
        if all(source == target for source, target in train()):
            hint = "Name files of two styles: `phmrun schema style --files` prints samples."
            raise data_error("each training sentence equals its target", data.files["train"][1], hint)
        data.measures = dict(measures(train))
    if config.data.copies and "train" in data.files:
        data.files["train"] = with_copies(data.files["train"], config.data.copies, cache)
    return data


def with_copies(pair: tuple[Path, Path], times: int, cache: Path) -> tuple[Path, Path]:
    """Return training files with added copies.

    They are in ``cache``, and written again if they are damaged. After each pair, its target sentence follows ``times``
    times with itself as the source.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """

    def write(directory: Path) -> dict[str, Any]:
        """Write both files, and return no facts."""
        for side, name in enumerate(COPIED):
            with (directory / name).open("w", encoding="utf-8") as handle:
                for sides in read_parallel(*pair):
                    handle.write("".join(f"{sentence}\n" for sentence in (sides[side], *[sides[1]] * times)))
        return {}

    directory, _ = build_once(cache, {"kind": "copies", "files": list(pair), "times": times}, write)
    return directory / COPIED[0], directory / COPIED[1]


Pairs = Callable[[], Iterable[tuple[str, str]]]
Hits = Callable[[Sequence[str], Sequence[str]], Sequence[bool]]
"""Function of sources and outputs, with True for each output that counts."""
SIGNATURES = {"unchanged": "same:tokens", "style": "classifier:logistic|words:1-2|from:train"}


def hits(train: Pairs) -> Mapping[str, Hits]:
    """Return the functions behind the measures by name: "unchanged" and "style".

    ``train`` yields training pairs without copies; it is read when "style" is first measured.
    """
    classifier = cache(partial(_classifier, train))  # trained at the first call
    return {"unchanged": _same, "style": lambda _, outputs: classifier()(outputs)}


def measures(train: Pairs) -> Mapping[str, OutputMeasure]:
    """Return the measures of outputs by name, as :func:`hits` does: shares in percent with Wilson intervals."""
    return {name: partial(_share, name, hit) for name, hit in hits(train).items()}


def read_items(run: Run, split: str, part: str, name: str) -> Items | None:
    """Return 1 for each output of a run that counts for a measure, else 0, and 1: ``[items, 2]``.

    Outputs come from the run, sources and training pairs from its data. ``None`` for a part, and for files
    that are none of the run's splits.

    Raises:
        ModuleNotFoundError: scikit-learn, which "style" needs, is not installed.
    """
    files = data_of(load_run_config(run.config_path)).files
    if part or split not in files:
        return None
    sources, references = zip(*read_parallel(*files[split]), strict=True)
    # The classifier leaves out pairs with equal sides, so that added copies do not count.
    counted = hits(partial(read_parallel, *files["train"]))[name](sources, read_outputs(run, split))
    return Items(np.array([[hit, 1] for hit in counted], dtype=np.float64), checksum(references))


def _same(sources: Sequence[str], outputs: Sequence[str]) -> list[bool]:
    """Return True for each output that equals its source.

    Words are compared, so the amount and kind of white space between them does not count.
    """
    return [source.split() == output.split() for source, output in zip(sources, outputs, strict=True)]


def _share(name: str, hit: Hits, sources: Sequence[str], outputs: Sequence[str]) -> Score:
    """Return the percentage of outputs that count, with a Wilson interval; there is at least one."""
    number, n = sum(hit(sources, outputs)), len(outputs)
    return Score(name, 100 * number / n, f"{SIGNATURES[name]}|ci:wilson95", n, ci=wilson(number, n))


def _classifier(train: Pairs) -> Callable[[Sequence[str]], list[bool]]:
    """Train a classifier of styles.

    Return a function with True for each sentence in the target style. It is logistic regression on words and pairs of
    adjacent words in lower case; sentence pairs with equal sides are left out. A note on stderr names its size.

    Raises:
        ModuleNotFoundError: scikit-learn is not installed.
    """
    sources, targets = zip(*((source, target) for source, target in train() if source != target), strict=True)
    note(f"style classifier: logistic regression on {len(sources):,} training sentences of each style")
    labels = [False] * len(sources) + [True] * len(targets)
    features: dict[str, Any] = {"tokenizer": _words, "token_pattern": None, "lowercase": False, "ngram_range": (1, 2)}
    predict = learn_labels([*sources, *targets], labels, **features)
    return lambda sentences: predict(list(sentences)).tolist()


def _words(sentence: str) -> list[str]:
    """Return the lowercase words of a sentence, with punctuation and clitics split off."""
    return spaced(sentence, True, "punctuation").split()
