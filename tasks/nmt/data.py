"""Data of machine translation, and its dictionary baseline."""

import re
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np

from phmrun.families.sequence_to_sequence.data import ParallelData, build_parallel_data, builtin_pairs
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.lines import read_parallel

_TOKEN = re.compile(r"\w+(?:[-']\w+)*|[.,?]")
_ROUNDS = 3
_LEAST = 1e-4  # alignment probabilities below this count as 0
_PAIRS = 8_000  # training pairs of the dictionary; more change the score by less than half a point


def build_data(config: TranslationExperiment, cache: Path) -> ParallelData:
    """Build the data module of an experiment.

    Prepared corpora are in ``cache``. The built-in corpus, English and German in either direction, has parts of the
    test set, and a dictionary baseline.

    Raises:
        PhmrunError: A file or dataset is not on this machine (exit 3), or lacks a language (exit 2).
    """
    data = build_parallel_data(config, cache, partial(builtin_pairs, "translation", ("en", "de")))
    if config.data.name == "builtin":
        train = data.files["train"]
        data.baselines["dictionary"] = lambda sources: dictionary_baseline(read_parallel(*train), sources)
    return data


def dictionary(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the most probable target word of each source word.

    ``t(target | source)`` is estimated by model 1 of Brown et al. (1993): three rounds of expectation maximization over
    co-occurrences, with an empty source word. Only the first 8,000 pairs are used. Ties go to the first word by
    alphabet; the result is empty without target words.
    """
    corpus = [(("", *tokens(source)), tokens(target)) for source, target in islice(pairs, _PAIRS)]
    sources = sorted({word for source, _ in corpus for word in source})
    targets = sorted({word for _, target in corpus for word in target})
    if not targets:
        return {}
    rows, columns = ({word: number for number, word in enumerate(words)} for words in (sources, targets))

    # `key` and `place` have one entry for each target word (place) and each word of its source sentence.
    key = [
        np.add.outer([columns[word] for word in target], [rows[word] * len(targets) for word in source]).ravel()
        for source, target in corpus
        if target
    ]
    width = np.repeat([len(source) for source, _ in corpus], [len(target) for _, target in corpus])
    place = np.repeat(np.arange(len(width)), width)
    cells, cell = np.unique(np.concatenate(key), return_inverse=True)
    row, column = np.divmod(cells, len(targets))
    table = np.ones(len(cells))
    for _ in range(_ROUNDS):
        weight = table[cell]
        share = weight / np.bincount(place, weight)[place]
        counts = np.bincount(cell, np.where(share > _LEAST, share, 0.0))
        table = counts / np.bincount(row, counts)[row]

    # Ties are broken alphabetically, so that the order of the corpus does not matter.
    order = np.lexsort((column, -table, row))
    best = order[np.unique(row[order], return_index=True)[1]]
    return {sources[row[number]]: targets[column[number]] for number in best if sources[row[number]]}


def dictionary_baseline(train: Iterable[tuple[str, str]], sources: Sequence[str]) -> list[str]:
    """Translate word by word with a dictionary of training pairs.

    Unknown words are copied; other characters than words and ``. , ?`` are dropped, as by :func:`tokens`. Spaces before
    the marks are removed, and each sentence begins with a capital.
    """
    forms = dictionary(train)
    translations = []
    for source in sources:
        text = " ".join(forms.get(word, word) for word in tokens(source))
        text = re.sub(r" ([.,?])", r"\1", text)
        translations.append(text[:1].upper() + text[1:])
    return translations


def tokens(text: str) -> list[str]:
    """Return words and the marks ``. , ?`` of a sentence.

    Words may contain inner hyphens and apostrophes; other characters are dropped. The first letter of the first piece
    is in lower case. The result is empty without words and marks.
    """
    pieces = _TOKEN.findall(text)
    return [pieces[0][0].lower() + pieces[0][1:], *pieces[1:]] if pieces else []
