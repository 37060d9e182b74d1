"""What each sentence adds to corpus BLEU, so that resampled test sets can be scored without counting n-grams anew."""

from collections.abc import Sequence

import numpy as np
from sacrebleu.metrics import BLEU

from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.translation import require_pairs

_ORDER = 4


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """Matches and n-grams of each order, and the two lengths, by sacreBLEU: ``[sentences, 10]``.

    Args:
        hypotheses: Detokenised outputs.
        references: One detokenised reference for each.

    Raises:
        PhmrunError: The two sides do not have the same number of sentences, or none.
    """
    require_pairs(hypotheses, references)
    metric = BLEU(effective_order=True)  # which changes a sentence's score, but not its counts
    rows = [
        (*score.counts, *score.totals, score.sys_len, score.ref_len)
        for hypothesis, reference in zip(hypotheses, references, strict=True)
        for score in [metric.sentence_score(hypothesis, [reference])]
    ]
    return np.array(rows, dtype=np.float64)


def bleu_of(sums: Counts) -> Counts:
    """Corpus BLEU in percent of summed counts, ``[sets, 10] -> [sets]``; smoothed as :func:`~phmrun.metrics.bleu`."""
    scores = []
    for row in sums.astype(int).tolist():
        matches, totals, (length, reference) = row[:_ORDER], row[_ORDER : 2 * _ORDER], row[2 * _ORDER :]
        scores.append(BLEU.compute_bleu(matches, totals, length, reference, smooth_method="exp").score)
    return np.array(scores)
