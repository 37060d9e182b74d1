"""Scores: a value, the signature that says exactly how it was computed, and how far to trust it."""

from phmrun.metrics.score import Score
from phmrun.metrics.translation import bleu, chrf, sentence_bleu, sentence_bleu_nltk

__all__ = ["Score", "bleu", "chrf", "sentence_bleu", "sentence_bleu_nltk"]
