"""Metrics and scores: values with signatures of their settings and confidence intervals."""

from phmrun.metrics.score import Score
from phmrun.metrics.translation import bleu, bleu_obstacle, chrf, sentence_bleu, sentence_bleu_nltk
