"""Language modeling: LSTMs, AWD-LSTM and Transformer-XL over running text."""

import math
from dataclasses import replace
from functools import partial
from typing import Any

from phmrun.families.sentence_classification.metrics import ACCURACY as OF_LABELS
from phmrun.metric import Baseline, Deferred, Metric
from phmrun.task import Format, Task


def _metric(name: str, **facts: Any) -> Metric:
    """Return a metric of running text, whose lines `phmrun.tasks.lm.data` counts."""
    reader, score = (Deferred(f"phmrun.tasks.lm.data:{function}") for function in ("read_items", f"{name}_of"))
    return Metric(name, lower_is_better=True, of_items=score, rounding=1e-3, read_items=reader, **facts)


PERPLEXITY = _metric("perplexity", floors=("unigram",), diverged_past="unigram", bounds=(1.0, math.inf))
BITS_PER_BYTE = _metric("bits_per_byte", floors=("unigram",), diverged_past="unigram", bounds=(0.0, math.inf))
BITS_PER_CHARACTER = _metric("bits_per_character", bounds=(0.0, math.inf))

_PAIRS = partial(Deferred("phmrun.families.sentence_classification.items:read_items"), mark=("part", "good", "bad"))
ACCURACY = replace(OF_LABELS, read_items=_PAIRS, floors=("chance",))
"""Of minimal pairs: share whose acceptable sentence has the higher probability."""

TASK = Task(
    name="lm",
    summary="Language modeling: LSTM, AWD-LSTM or Transformer-XL over running text, from words to perplexity",
    schema="phmrun.tasks.lm.config:LanguageModelExperiment",
    vocabulary="phmrun.tasks.lm.vocabulary:StreamVocabulary",
    data="phmrun.tasks.lm.data:build_data",
    module="phmrun.tasks.lm.module:build_module",
    predictor="phmrun.tasks.lm.predictor:LanguageModelPredictor",
    pairs="phmrun.tasks.lm.pairs:MinimalPairs",
    formats=(
        Format(
            "running text",
            "one sentence or paragraph a line, tokenized, or raw: then punctuation is split from words",
            {"train.txt": "the dog sees the cat and the cat sees the dog .\nthe cat runs and the child sleeps .\n"},
        ),
    ),
    metrics=(PERPLEXITY, BITS_PER_BYTE, BITS_PER_CHARACTER, ACCURACY),
    baselines=(
        Baseline("unigram", "each word by its frequency in training, with 1 added to each count"),
        Baseline("5-gram", "sequences of up to five words counted in training (interpolated modified Kneser-Ney)"),
        Baseline("chance", "of minimal pairs: one of two sentences, at random"),
    ),
    networks={
        "lstm-lm": "phmrun.tasks.lm.lstm:LSTMLanguageModel",
        "transformer-xl": "phmrun.tasks.lm.transformer_xl:TransformerXL",
    },
)
