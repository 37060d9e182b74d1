"""Metrics and baselines of sequence-to-sequence tasks."""

from functools import partial
from typing import Any

from phmrun.metric import PERCENT, Baseline, Deferred, Metric

_MATHEMATICS = "phmrun.metrics.translation"
_FLOORS = ("copy", "dictionary")


def _metric(name: str, title: str, counts: str, **facts: Any) -> Metric:
    """Return a metric of text; ``counts`` is the function of `phmrun.metrics.translation` that counts its items."""
    reader = Deferred("phmrun.families.sequence_to_sequence.items:read_items")
    read_items: Any = partial(reader, counted=Deferred(f"{_MATHEMATICS}:{counts}"), tokenized=counts == "bleu_counts")
    return Metric(name, title, read_items=read_items, floors=_FLOORS, bounds=PERCENT, **facts)


_of_bleu, _of_chrf, _of_sentences, _of_nltk = (
    Deferred(f"{_MATHEMATICS}:{name}_of") for name in ("bleu", "chrf", "sentence_bleu", "sentence_bleu_nltk")
)
BLEU = _metric("bleu", "BLEU", "bleu_counts", margin=0.5, measure=_of_bleu)
CHRF = _metric("chrf", "chrF", "chrf_counts", measure=_of_chrf)
SENTENCE_BLEU = _metric("sentence-bleu", "sentence BLEU", "bleu_counts", of_items=_of_sentences)
SENTENCE_BLEU_NLTK = _metric("sentence-bleu-nltk", "sentence BLEU by NLTK", "nltk_counts", of_items=_of_nltk)
OF_TEXT = (BLEU, CHRF, SENTENCE_BLEU, SENTENCE_BLEU_NLTK)
COPY = Baseline("copy", "the source, copied")
