"""Metrics and baselines of sequence-to-sequence tasks."""

from functools import partial
from typing import Any

from phmrun.metric import PERCENT, Baseline, Deferred, Metric

_MATHEMATICS = "phmrun.metrics.translation"
_FLOORS = ("copy", "dictionary")


def _counts(name: str) -> Any:
    """Return the reader of a run's items, with a function of `phmrun.metrics.translation` that counts."""
    reader = Deferred("phmrun.families.sequence_to_sequence.items:read_items")
    return partial(reader, counted=Deferred(f"{_MATHEMATICS}:{name}"), tokenized=name == "bleu_counts")


def _of_sentences(name: str, title: str, measure: str, counts: str) -> Metric:
    """Return a metric that is a mean over sentences; ``measure`` and ``counts`` are functions of the same module."""
    of_items = Deferred(f"{_MATHEMATICS}:{measure}")
    return Metric(name, title, of_items=of_items, read_items=_counts(counts), floors=_FLOORS, bounds=PERCENT)


BLEU = Metric(
    "bleu",
    "BLEU",
    margin=0.5,
    measure=Deferred(f"{_MATHEMATICS}:bleu_of"),
    read_items=_counts("bleu_counts"),
    floors=_FLOORS,
    bounds=PERCENT,
)
CHRF = Metric(
    "chrf",
    "chrF",
    measure=Deferred(f"{_MATHEMATICS}:chrf_of"),
    read_items=_counts("chrf_counts"),
    floors=_FLOORS,
    bounds=PERCENT,
)
SENTENCE_BLEU = _of_sentences("sentence-bleu", "sentence BLEU", "sentence_bleu_of", "bleu_counts")
SENTENCE_BLEU_NLTK = _of_sentences(
    "sentence-bleu-nltk", "sentence BLEU by NLTK", "sentence_bleu_nltk_of", "nltk_counts"
)
OF_TEXT = (BLEU, CHRF, SENTENCE_BLEU, SENTENCE_BLEU_NLTK)
COPY = Baseline("copy", "the source, copied")
