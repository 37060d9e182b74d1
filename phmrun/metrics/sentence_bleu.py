"""BLEU of every sentence alone, averaged: what some papers report as BLEU. It does not compare with corpus BLEU.

Most single sentences share no four-gram with their reference, so that the value is largely what the smoothing puts in
place of zero; both definitions here say in their signature which smoothing that is.

Sources: Chen and Cherry 2014 (smoothing, methods 3 and 4), Post 2018 (sacreBLEU), NLTK 3.2 (its form of method 4).
"""

import math
import re
from collections import Counter
from collections.abc import Sequence

from sacrebleu.metrics import BLEU

from phmrun.metrics.score import Score
from phmrun.metrics.translation import ORDER, require_pairs

_WORD = re.compile(r"\w+")
_NLTK_K = 5
FIRST = 500  # sentences of the test set that the reproduction of the PHM paper scores; an extra of both scores


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
