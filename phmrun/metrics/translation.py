"""Corpus BLEU and chrF by sacreBLEU, equal to its command line's output, and mean sentence BLEU.

Some papers report the mean BLEU of single sentences as BLEU. It is not comparable with corpus BLEU. Most sentences
share no four-gram with their reference, so that the value depends largely on the smoothing, which the signatures name.

Sources: Papineni et al. 2002 (BLEU), Popović 2015 (chrF), Post 2018 (sacreBLEU and its signatures), Koehn 2004
(bootstrap resampling), Chen and Cherry 2014 (smoothing, methods 3 and 4), NLTK 3.2 (its form of method 4).
"""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from phmrun.errors import counted, data_error
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.score import Score

RESAMPLES = 1000  # resampled test sets of a confidence interval
ORDER = 4
TOKENIZED = 100  # outputs ending in a separate period, from which on text counts as tokenized
FIRST = 500  # sentences that the reproduction of the PHM paper scores; an extra of both sentence scores
_WORD = re.compile(r"\w+")
USUAL = "13a"  # sacreBLEU's tokenizer of languages with spaces between words
PACKAGES = {"ja-mecab": "sacrebleu[ja]", "ko-mecab": "sacrebleu[ko]"}
"""Packages of tokenizers that sacreBLEU alone does not have."""
# Thai, Lao, Tibetan, Burmese, Khmer, kana, Han
_UNSPACED = re.compile("[\u0e00-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
_LONG_WORD = 6  # characters
_NLTK_K = 5

# Resampling holds RESAMPLES copies of the statistics of every sentence: 0.5 GB for this number of sentences.
_MOST_RESAMPLED = 10_000


def bleu_obstacle(tokenizer: str, references: Sequence[str]) -> str | None:
    """Return the reason why BLEU says nothing with this tokenizer, or None.

    The tokenizer cannot be loaded, or it splits at spaces and the references have none between words: each is then one
    token, and BLEU is 0. That is so if most characters are of scripts without spaces, and if the references have fewer
    than two words on average, or words of more than six characters.
    """
    try:
        _sacrebleu().BLEU(tokenize=tokenizer)
    except (ImportError, RuntimeError, OSError) as error:
        remedy = f"pip install '{PACKAGES[tokenizer]}'" if tokenizer in PACKAGES else " ".join(str(error).split())
        return f"sacreBLEU's tokenizer {tokenizer} is not here ({remedy})"
    words = [word for line in references for word in line.split()]
    characters = sum(map(len, words))
    unspaced = sum(len(_UNSPACED.findall(word)) for word in words) > characters / 2
    rare = len(words) < 2 * len(references) or characters > _LONG_WORD * len(words)
    if tokenizer not in (USUAL, "intl") or not (unspaced and rare):
        return None
    others = "zh, ja-mecab, ko-mecab, flores200 or char"
    return f"the tokenizer {tokenizer} finds no words in text without spaces; decoding.tokenizer may be {others}"


def bleu(
    hypotheses: Sequence[str], references: Sequence[str], *, resamples: int = RESAMPLES, tokenizer: str = USUAL
) -> Score:
    """Compute corpus BLEU in percent, with sacreBLEU's default settings.

    Settings: tokens of ``tokenizer``, cased, exponential smoothing, one detokenized reference per output. The
    confidence interval is that of sacreBLEU: mean of the resampled scores ± half the width of their central 95 %. Its
    seed is ``SACREBLEU_SEED`` or 12345. Warnings name empty outputs, tokenized ones, and a missing interval.

    Args:
        hypotheses: Outputs, one per sentence.
        references: References in the same order.
        resamples: Resampled test sets of the interval; 0 or 1: no interval. There is none above 10,000 sentences.
            Default: 1,000.
        tokenizer: Name of sacreBLEU's tokenizer.

    Returns:
        The score. Extras: four n-gram precisions in percent, the brevity penalty, and the tokens of both sides.

    Raises:
        PhmrunError: (exit 3) The two sides differ in their number of sentences, or are empty.
    """
    # Without sacreBLEU's advice on tokenized text, which names options that phmrun does not have.
    metric = _sacrebleu().BLEU(force=True, tokenize=tokenizer)
    result, ci, warnings = _measure(metric, hypotheses, references, resamples)
    if (ends := sum(line.endswith(" .") for line in hypotheses)) >= TOKENIZED:
        warnings += (f'{ends:,} outputs end in " .": this is no BLEU of detokenized text',)
    extras = {
        "precisions": [float(precision) for precision in result.precisions],
        "brevity_penalty": float(result.bp),
        "hypothesis_tokens": int(result.sys_len),
        "reference_tokens": int(result.ref_len),
    }
    signature = str(metric.get_signature())
    return Score("BLEU", float(result.score), signature, len(hypotheses), ci=ci, extras=extras, warnings=warnings)


def chrf(hypotheses: Sequence[str], references: Sequence[str], *, resamples: int = RESAMPLES) -> Score:
    """Compute corpus chrF2 in percent.

    It counts character 6-grams, with twice the weight on recall. Arguments and errors are those of :func:`bleu`. There
    are no extras, and no warning about tokenized outputs. If only some resampled scores are 0, a warning replaces the
    interval.
    """
    metric = _sacrebleu().CHRF()
    result, ci, warnings = _measure(metric, hypotheses, references, resamples)
    signature = str(metric.get_signature())
    return Score("chrF2", float(result.score), signature, len(hypotheses), ci=ci, warnings=warnings)


def sentence_bleu(hypotheses: Sequence[str], references: Sequence[str], *, tokenizer: str = USUAL) -> Score:
    """Compute the mean of sacreBLEU's sentence scores in percent.

    Settings: tokens of ``tokenizer``, cased, exponential smoothing, effective order. Above 500 sentences, the extra
    ``first_500`` is the mean of the first 500. There is no interval.

    Raises:
        PhmrunError: (exit 3) The two sides differ in their number of sentences, or are empty.
    """
    require_pairs(hypotheses, references)
    metric = _sacrebleu().BLEU(effective_order=True, tokenize=tokenizer)
    pairs = zip(hypotheses, references, strict=True)
    values = [metric.sentence_score(hypothesis, [reference]).score for hypothesis, reference in pairs]
    return _mean(values, str(metric.get_signature()))


def sentence_bleu_nltk(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    r"""Compute the mean sentence BLEU in percent as defined by Demir and Barutçu.

    Tokens are words (``\w+``) without punctuation, cased. A precision of order n from 2 on without a match counts as
    1 / (n - 1 + 5 / ln(words of the hypothesis)): Chen and Cherry's method 4 in NLTK up to 3.2.5. A hypothesis with
    fewer than two words, or without a matching word, scores 0. Arguments and errors are those of
    :func:`sentence_bleu`.
    """
    rows = nltk_counts(hypotheses, references).astype(int).tolist()
    signature = r"nrefs:1|case:mixed|eff:no|tok:\w+|smooth:nltk-3.2-method4"
    return _mean([100 * _method_4(row) for row in rows], signature)


def _method_4(counts: list[int]) -> float:
    """Return the BLEU of a sentence, from 0 to 1.

    ``counts`` is its row of :func:`nltk_counts`. The value is smoothed as :func:`sentence_bleu_nltk` says, and 0 for
    fewer than two words or none that matches.
    """
    *matches, length, reference = counts
    if length < 2 or not matches[0]:
        return 0.0  # NLTK divides by ln 1 = 0 here; the reproduction counts it as 0
    logarithms = [
        math.log(same / (length - order + 1)) if same else -math.log(order - 1 + _NLTK_K / math.log(length))
        for order, same in enumerate(matches, 1)
    ]
    return math.exp(min(0.0, 1 - reference / length) + math.fsum(logarithms) / ORDER)


def _mean(values: Sequence[float], signature: str) -> Score:
    """Return the mean over all sentences as a score.

    Its signature gets "|mean:sentences". Above 500 sentences, the mean of the first 500 is the extra ``first_500``.
    """
    first = values[:FIRST]
    extras = {f"first_{FIRST}": math.fsum(first) / len(first)} if len(values) > FIRST else {}
    mean = math.fsum(values) / len(values)
    return Score("sentence BLEU", mean, f"{signature}|mean:sentences", len(values), extras=extras)


def bleu_counts(hypotheses: Sequence[str], references: Sequence[str], *, tokenizer: str = USUAL) -> Counts:
    """Count the statistics of corpus BLEU for each sentence, for resampling.

    Returns:
        ``[sentences, 10]``: matches of orders 1 to 4, n-grams of orders 1 to 4 in the hypothesis, and the tokens of
        hypothesis and reference.

    Raises:
        PhmrunError: (exit 3) The two sides differ in their number of sentences, or are empty.
    """
    require_pairs(hypotheses, references)
    # The order changes a sentence's score, but not its counts.
    metric = _sacrebleu().BLEU(effective_order=True, tokenize=tokenizer)
    pairs = zip(hypotheses, references, strict=True)
    scores = [metric.sentence_score(hypothesis, [reference]) for hypothesis, reference in pairs]
    rows = [(*score.counts, *score.totals, score.sys_len, score.ref_len) for score in scores]
    return np.array(rows, dtype=np.float64)


def bleu_of(sums: Counts) -> Counts:
    """Compute corpus BLEU in percent from summed counts.

    It is smoothed as in :func:`bleu`.

    Shapes: ``[sets, 10] -> [sets]``.
    """
    return np.array(_bleus(sums, effective_order=False))


def sentence_bleu_of(counts: Counts) -> float:
    """Compute :func:`sentence_bleu` in percent from :func:`bleu_counts`.

    ``counts`` is ``[sentences, 10]``, with at least one sentence.
    """
    return math.fsum(_bleus(counts, effective_order=True)) / len(counts)


def _bleus(counts: Counts, *, effective_order: bool) -> list[float]:
    """Return the BLEU of each row of :func:`bleu_counts`, in percent, with exponential smoothing."""
    settings: dict[str, Any] = {"smooth_method": "exp", "effective_order": effective_order}
    rows = [(row[:ORDER], row[ORDER : 2 * ORDER], *row[2 * ORDER :]) for row in counts.astype(int).tolist()]
    return [float(_sacrebleu().BLEU.compute_bleu(*row, **settings).score) for row in rows]


def nltk_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """Count the statistics of :func:`sentence_bleu_nltk` for each sentence.

    Returns:
        ``[sentences, 6]``: clipped matches of orders 1 to 4, and the words of hypothesis and reference.

    Raises:
        PhmrunError: (exit 3) The two sides differ in their number of sentences, or are empty.
    """
    require_pairs(hypotheses, references)
    rows = []
    for output, gold in zip(hypotheses, references, strict=True):
        sides = _WORD.findall(output), _WORD.findall(gold)
        grams = [[Counter(zip(*(side[start:] for start in range(order)), strict=False)) for side in sides]
                 for order in range(1, ORDER + 1)]  # fmt: skip
        rows.append([*((mine & theirs).total() for mine, theirs in grams), *map(len, sides)])
    return np.array(rows, dtype=np.float64)


def sentence_bleu_nltk_of(counts: Counts) -> float:
    """Compute :func:`sentence_bleu_nltk` in percent from :func:`nltk_counts`.

    ``counts`` is ``[sentences, 6]``, with at least one sentence.
    """
    return math.fsum(100 * _method_4(row) for row in counts.astype(int).tolist()) / len(counts)


def chrf_counts(hypotheses: Sequence[str], references: Sequence[str]) -> Counts:
    """Count the statistics of chrF for each sentence.

    Returns:
        ``[sentences, 18]``: for each order from 1 to 6 the character n-grams of hypothesis and of reference, and the
        matches.

    Raises:
        PhmrunError: (exit 3) The two sides differ in their number of sentences, or are empty.
    """
    require_pairs(hypotheses, references)
    return np.array(
        _sacrebleu().CHRF()._extract_corpus_statistics(list(hypotheses), [list(references)]), dtype=np.float64
    )


def chrf_of(sums: Counts) -> Counts:
    """Compute chrF2 in percent from summed counts, ``[sets, 18] -> [sets]``."""
    return np.array([_sacrebleu().CHRF()._compute_f_score(row) for row in sums.astype(int).tolist()])


def require_pairs(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Check that both sides have as many sentences, at least one.

    Raises:
        PhmrunError: (exit 3) Their numbers differ, or are 0.
    """
    if len(hypotheses) != len(references):
        what = f"{len(hypotheses):,} hypotheses cannot be scored against {len(references):,} references"
        raise data_error(what, None, "Both files need one sentence per line, in the same order.")
    if not hypotheses:
        raise data_error("there is no sentence to score")


def _measure(
    metric: Any, hypotheses: Sequence[str], references: Sequence[str], resamples: int
) -> tuple[Any, tuple[float, float] | None, tuple[str, ...]]:
    """Return sacreBLEU's score object, the confidence interval, and warnings.

    The interval is ``None`` for fewer than two resamples, above 10,000 sentences, or if sacreBLEU cannot compute it;
    the last two add a warning. It lies within 0 and 100, and is (0, 0) if every resampled score
    is 0. Empty outputs add a warning, too.

    Raises:
        PhmrunError: (exit 3) The two sides differ in their number of sentences, or are empty.
    """
    require_pairs(hypotheses, references)
    sides = list(hypotheses), [list(references)]
    warnings = []
    if silent := sum(not output.strip() for output in hypotheses):
        are = "is" if silent == 1 else "are"
        warnings.append(f"{silent:,} of {counted(len(hypotheses), 'output')} {are} empty")
    resampled = resamples > 1 and len(hypotheses) <= _MOST_RESAMPLED
    try:
        result = metric.corpus_score(*sides, n_bootstrap=resamples if resampled else 1)
    except TypeError:  # sacreBLEU fails if some, but not all, resampled chrF scores are 0
        metric.n_bootstrap = metric.seed = None
        resampled, resamples = False, 0
        result = metric.corpus_score(*sides)
        warnings.append("no confidence interval: some of the resampled scores are 0")
    if not resampled:
        if resamples > 1:
            warnings.append(f"no confidence interval: more than {_MOST_RESAMPLED:,} sentences")
        return result, None, tuple(warnings)
    # sacreBLEU exposes the interval in its JSON only, and omits it if every resampled score is 0.
    report = json.loads(result.format(width=10, signature=str(metric.get_signature()), is_json=True))
    mean, half = report.get("confidence_mean", 0.0), report.get("confidence_var", 0.0)
    return result, (max(mean - half, 0.0), min(mean + half, 100.0)), tuple(warnings)


def _sacrebleu() -> Any:
    """Return sacreBLEU, which is imported only now: most commands do not need it."""
    import sacrebleu

    return sacrebleu
