"""Attachment scores of dependency trees, as defined by the CoNLL 2017 shared task.

    UAS             words with the correct head
    LAS             words with the correct head and label
    CLAS            LAS of content words: F1, since gold and parsed trees can differ in content words
    label accuracy  words with the correct label, for any head

All scores are in percent of the words. Content words have a label that is not that of a function word or punctuation.
By default only the universal part of a label counts (``nmod`` of ``nmod:poss``), and punctuation is scored.

Source: Zeman et al., "CoNLL 2017 shared task: multilingual parsing from raw text to universal dependencies"; CLAS:
Nivre and Fang, "Universal dependency evaluation", 2017. Words are gold, so the task's alignment of words is not needed.
"""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from phmrun.errors import data_error
from phmrun.metrics.bootstrap import SEED, Counts, interval, resampled
from phmrun.metrics.score import Score
from phmrun.text.conllu import Sentence, universal

RESAMPLES = 1000  # resampled test sets behind a confidence interval

CONTENT_LABELS = frozenset(
    (
        *("nsubj", "obj", "iobj", "csubj", "ccomp", "xcomp", "obl", "nmod", "vocative", "expl", "dislocated"),
        *("advcl", "advmod", "discourse", "appos", "nummod", "acl", "amod", "conj", "fixed", "flat", "compound"),
        *("list", "parataxis", "orphan", "goeswith", "reparandum", "root", "dep"),
    )
)
"""Universal labels of content words."""

WORDS, HEADS, ARCS, LABELS, CONTENT, CONTENT_ARCS = range(6)


def share(counts: Counts, of: int, among: int) -> Counts:
    """Return 100 · counts[of] / max(counts[among], 1), in percent.

    ``counts`` are sums ``[…, kinds]``, the result is ``[…]``; ``of`` and ``among`` are columns.
    """
    return 100 * counts[..., of] / np.maximum(counts[..., among], 1)


def clas_of(counts: Counts) -> Counts:
    """Return CLAS in percent, ``[…]``, from summed counts ``[…, kinds]``."""
    return 2 * share(counts, CONTENT_ARCS, CONTENT)


uas_of, las_of, label_accuracy_of = (partial(share, of=right, among=WORDS) for right in (HEADS, ARCS, LABELS))
"""Scores by :func:`share`, with the arguments of :func:`clas_of`."""
_SCORES: dict[str, tuple[str, Callable[[Counts], Counts]]] = {
    "uas": ("UAS", uas_of),
    "las": ("LAS", las_of),
    "clas": ("CLAS", clas_of),
    "label-accuracy": ("label accuracy", label_accuracy_of),
}


def attachment_scores(
    gold: Sequence[Sentence],
    parsed: Sequence[Sentence],
    *,
    subtypes: bool = False,
    punctuation: bool = True,
) -> dict[str, Score]:
    """Score parsed trees against gold trees.

    Scores: "uas", "las", "clas" and "label-accuracy", in percent. The trees have the same words. Sample sizes are
    scored words, for all four scores.

    Args:
        gold: Sentences with their gold trees.
        parsed: The same sentences with predicted trees.
        subtypes: Compare language-specific subtypes too: ``nmod:poss``, not only ``nmod``.
        punctuation: Score words that consist of punctuation characters (Unicode's categories P), too.

    Raises:
        PhmrunError: (exit 3) The sentences differ in their words, or there is no word to score.
    """
    counts = sentence_counts(gold, parsed, subtypes, punctuation)
    total = counts.sum(axis=0)
    if not total[WORDS]:
        raise data_error("there is no word to score")
    labels, marks = "full" if subtypes else "universal", "in" if punctuation else "out"
    signature = f"def:conll2017|labels:{labels}|punct:{marks}|words:gold|bs:{RESAMPLES}|seed:{SEED}"
    sums, words = resampled(counts, RESAMPLES), int(total[WORDS])
    return {
        key: Score(name, float(score(total)), signature, words, "words", ci=interval(sums, score))
        for key, (name, score) in _SCORES.items()
    }


def sentence_counts(
    gold: Sequence[Sentence], parsed: Sequence[Sentence], subtypes: bool = False, punctuation: bool = True
) -> Counts:
    """Count words, correct heads, arcs and labels of each sentence.

    Arguments are those of :func:`attachment_scores`. Words that are not scored count 0 everywhere.

    Returns:
        ``[sentences, 6]``: words, correct heads, correct arcs (head and label), correct labels, content words of both
        sides, and gold content words with the correct arc. Without any word, a single row of zeros.

    Raises:
        PhmrunError: (exit 3) The sentences differ in their words.
    """
    if [sentence.forms for sentence in gold] != [sentence.forms for sentence in parsed]:
        raise data_error("the parsed sentences are not the gold ones: their words differ")
    lengths = np.array([len(sentence) for sentence in gold], dtype=np.intp)
    if not lengths.sum():
        return np.zeros((1, 6))
    labels = list(chain.from_iterable(sentence.deprels for sentence in gold))
    parsed_labels = list(chain.from_iterable(sentence.deprels for sentence in parsed))
    right_head = _flat(sentence.heads for sentence in gold) == _flat(sentence.heads for sentence in parsed)
    read = str if subtypes else universal
    pairs = zip(labels, parsed_labels, strict=True)
    right_label = np.array([read(left) == read(right) for left, right in pairs], dtype=np.bool_)
    content, parsed_content = _content(labels), _content(parsed_labels)
    right = right_head & right_label
    words = np.ones(len(labels), dtype=np.float64)
    kinds = np.stack(
        [words, right_head, right, right_label, content.astype(np.float64) + parsed_content, content & right], axis=1
    )
    if not punctuation:
        forms = chain.from_iterable(sentence.forms for sentence in gold)
        kinds[[all(unicodedata.category(character)[0] == "P" for character in form) for form in forms]] = 0
    # reduceat is wrong for empty sentences; CoNLL-U sentences have at least one word.
    return np.add.reduceat(kinds, np.cumsum(lengths) - lengths)


def _content(labels: Sequence[str]) -> NDArray[np.bool_]:
    """Return an array with True for each label of content words.

    They are :data:`CONTENT_LABELS`; subtypes are ignored.
    """
    return np.array([universal(label) in CONTENT_LABELS for label in labels], dtype=np.bool_)


def _flat(heads: Iterable[Sequence[int]]) -> NDArray[np.int64]:
    """Return the heads of all sentences as one array of int64."""
    return np.fromiter(chain.from_iterable(heads), dtype=np.int64)
