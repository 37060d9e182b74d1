"""BLEU and chrF of a whole corpus, computed by sacreBLEU on plain text; equal to its command line's output.

Also BLEU of every sentence alone, averaged: what some papers report as BLEU. It does not compare with corpus BLEU. Most
single sentences share no four-gram with their reference, so that the value is largely what the smoothing puts in place
of zero; both definitions here say in their signature which smoothing that is.

Sources: Papineni et al. 2002 (BLEU), Popović 2015 (chrF), Post 2018 (sacreBLEU and its signatures), Koehn 2004
(bootstrap resampling), Chen and Cherry 2014 (smoothing, methods 3 and 4), NLTK 3.2 (its form of method 4).
"""

import json
import logging
import math
import re
from collections import Counter
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
FIRST = 500  # sentences of the test set that the reproduction of the PHM paper scores; an extra of both sentence scores
_WORD = re.compile(r"\w+")
_NLTK_K = 5

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


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Mean of sacreBLEU's sentence scores in percent: 13a tokens, cased, exponential smoothing, effective order.

    Raises:
        PhmrunError: The two sides do not have the same number of sentences, or none.
    """
    require_pairs(hypotheses, references)
    metric = BLEU(effective_order=True)
    pairs = zip(hypotheses, references, strict=True)
    values = [metric.sentence_score(hypothesis, [reference]).score for hypothesis, reference in pairs]
    return _mean(values, str(metric.get_signature()))


def sentence_bleu_nltk(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    r"""Mean of sentence scores in percent as Demir and Barutçu take it: words (``\w+``) without punctuation, cased.

    A precision of order n (from 2 on) with no match counts as 1 / (n - 1 + 5 / ln(words of the hypothesis)), which is
    how NLTK up to 3.2.5 computes Chen and Cherry's method 4. A hypothesis of one word, or without a matching one,
    counts as 0. Arguments and errors as in :func:`sentence_bleu`.
    """
    require_pairs(hypotheses, references)
    words = [(_WORD.findall(one), _WORD.findall(other)) for one, other in zip(hypotheses, references, strict=True)]
    signature = r"nrefs:1|case:mixed|eff:no|tok:\w+|smooth:nltk-3.2-method4"
    return _mean([100 * _method_4(*pair) for pair in words], signature)


def _method_4(hypothesis: list[str], reference: list[str]) -> float:
    """BLEU of one sentence, from 0 to 1."""
    if len(hypothesis) < 2 or not set(hypothesis) & set(reference):
        return 0.0  # NLTK divides by ln 1 there, which the reproduction counts as 0
    logarithms = []
    for order in range(1, ORDER + 1):
        found, wanted = (
            Counter(tuple(words[start : start + order]) for start in range(len(words) - order + 1))
            for words in (hypothesis, reference)
        )
        matches = (found & wanted).total()
        if matches:
            logarithms.append(math.log(matches / found.total()))
        else:
            logarithms.append(-math.log(order - 1 + _NLTK_K / math.log(len(hypothesis))))
    penalty = min(0.0, 1 - len(reference) / len(hypothesis))
    return math.exp(penalty + math.fsum(logarithms) / ORDER)


def _mean(values: Sequence[float], signature: str) -> Score:
    """The mean over all sentences, and over the first ones as an extra."""
    first = values[:FIRST]
    extras = {f"first_{FIRST}": math.fsum(first) / len(first)} if len(values) > FIRST else {}
    mean = math.fsum(values) / len(values)
    return Score("sentence BLEU", mean, f"{signature}|mean:sentences", len(values), extras=extras)


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
        what = f"{len(hypotheses):,} hypotheses cannot be scored against {len(references):,} references"
        hint = "Both files need one sentence per line, in the same order."
        raise PhmrunError(what, hint=hint, code=ExitCode.DATA)
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
