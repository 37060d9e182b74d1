"""BLEU and chrF of a whole corpus, computed by sacreBLEU on plain text; equal to its command line's output.

Sources: Papineni et al. 2002 (BLEU), Popović 2015 (chrF), Post 2018 (sacreBLEU and its signatures), Koehn 2004
(bootstrap resampling).
"""

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.metrics.base import Metric

from phmrun.errors import ExitCode, PhmrunError, counted
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.score import Score

RESAMPLES = 1000  # resampled test sets behind a confidence interval
ORDER = 4

# Resampling holds RESAMPLES copies of the statistics of every sentence: half a gigabyte at this many.
_MOST_RESAMPLED = 10_000


def bleu(hypotheses: Sequence[str], references: Sequence[str], *, resamples: int = RESAMPLES) -> Score:
    """Corpus BLEU in percent: 13a tokens, cased, exponential smoothing, one detokenised reference for each output.

    The interval, over ``resamples`` test sets (0: none) seeded by ``SACREBLEU_SEED`` or 12345, is the mean of their
    scores ± half the width of the central 95%, as sacreBLEU reports it. The extras have the four n-gram precisions in
    percent, the brevity penalty, and the tokens of hypotheses and references.

    Raises:
        PhmrunError: The two sides do not have the same number of sentences, or none.
    """
    metric = BLEU()
    result, ci, warnings = _measure(metric, hypotheses, references, resamples)
    extras = {
        "precisions": [float(precision) for precision in result.precisions],
        "brevity_penalty": float(result.bp),
        "hypothesis_tokens": int(result.sys_len),
        "reference_tokens": int(result.ref_len),
    }
    signature = str(metric.get_signature())
    return Score("BLEU", float(result.score), signature, len(hypotheses), ci=ci, extras=extras, warnings=warnings)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, resamples: int = RESAMPLES) -> Score:
    """Corpus chrF2 in percent: character 6-grams, recall weighted twice; arguments and errors as in ``bleu``."""
    metric = CHRF()
    result, ci, warnings = _measure(metric, hypotheses, references, resamples)
    signature = str(metric.get_signature())
    return Score("chrF2", float(result.score), signature, len(hypotheses), ci=ci, warnings=warnings)


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """What each sentence adds to corpus BLEU, so that resampled test sets can be scored without counting anew.

    Matches and n-grams of each order, and the two lengths, ``[sentences, 10]``; errors as in ``bleu``.
    """
    require_pairs(hypotheses, references)
    metric = BLEU(effective_order=True)  # which changes a sentence's score, but not its counts
    pairs = zip(hypotheses, references, strict=True)
    scores = [metric.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    rows = [(*score.counts, *score.totals, score.sys_len, score.ref_len) for score in scores]
    return np.array(rows, dtype=np.float64)


def bleu_of(sums: Counts) -> Counts:
    """Corpus BLEU in percent of summed counts, ``[sets, 10] -> [sets]``; smoothed as :func:`~phmrun.metrics.bleu`."""
    scores = []
    for row in sums.astype(int).tolist():
        matches, totals, (length, reference) = row[:ORDER], row[ORDER : 2 * ORDER], row[2 * ORDER :]
        scores.append(BLEU.compute_bleu(matches, totals, length, reference, smooth_method="exp").score)
    return np.array(scores)


def require_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Refuses (exit 3) sides that do not have the same number of sentences, or none."""
    if len(hypotheses) != len(references):
        raise PhmrunError(
            f"{len(hypotheses):,} hypotheses cannot be scored against {len(references):,} references",
            hint="Both files need one sentence per line, in the same order.",
            code=ExitCode.DATA,
        )
    if not hypotheses:
        raise PhmrunError("there is no sentence to score", code=ExitCode.DATA)


def _measure(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str], resamples: int
) -> tuple[Any, tuple[float, float] | None, tuple[str, ...]]:
    """The score object of sacreBLEU, the confidence interval, and what sacreBLEU warned of."""
    require_pairs(hypotheses, references)
    sides = list(hypotheses), [list(references)]
    silent = sum(not each.strip() for each in hypotheses)
    resampled = resamples > 1 and len(hypotheses) <= _MOST_RESAMPLED
    with _heard() as warnings:
        if silent:
            are = "is" if silent == 1 else "are"
            warnings.append(f"{silent:,} of {counted(len(hypotheses), 'output')} {are} empty")
        try:
            result = metric.corpus_score(*sides, n_bootstrap=resamples if resampled else 1)
        except TypeError:  # sacreBLEU cannot take the mean of chrF scores of which some, but not all, are 0
            metric.n_bootstrap = metric.seed = None
            resampled, resamples = False, 0
            result = metric.corpus_score(*sides)
            warnings.append("no confidence interval: some of the resampled scores are 0")
    if not resampled:
        if resamples > 1:
            warnings.append(f"no confidence interval: more than {_MOST_RESAMPLED:,} sentences")
        return result, None, tuple(warnings)
    # The interval's public form is JSON; it is left out where every resampled score is 0.
    told = json.loads(result.format(width=10, signature=str(metric.get_signature()), is_json=True))
    mean, half = told.get("confidence_mean", 0.0), told.get("confidence_var", 0.0)
    return result, (mean - half, mean + half), tuple(warnings)


@contextmanager
def _heard() -> Iterator[list[str]]:
    """Collects what sacreBLEU logs as a warning, in place of its going to stderr."""
    heard: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("sacrebleu")
    propagate = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield heard
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)
