"""Metrics and baselines of sequence-to-sequence tasks."""

from phmrun.metric import Baseline, Deferred, Metric

BLEU = Metric(
    "bleu",
    "BLEU",
    margin=0.5,
    measure=Deferred("phmrun.metrics.translation:bleu_of"),
    read_items=Deferred("phmrun.families.sequence_to_sequence.items:read_items"),
    floors=("copy", "dictionary"),
)
CHRF = Metric("chrf", "chrF", floors=("copy", "dictionary"))
SENTENCE_BLEU = Metric("sentence-bleu", "sentence BLEU", hub_name="")
SENTENCE_BLEU_NLTK = Metric("sentence-bleu-nltk", "sentence BLEU by NLTK", hub_name="")
OF_TEXT = (BLEU, CHRF, SENTENCE_BLEU, SENTENCE_BLEU_NLTK)
COPY = Baseline("copy", "the source, copied")
