"""Language modeling: LSTMs, AWD-LSTM and Transformer-XL over running text."""

from phmrun.metric import Baseline, Metric
from phmrun.task import Format, Task

PERPLEXITY = Metric("perplexity", lower_is_better=True, floors=("unigram",), diverged_past="unigram")
BITS_PER_BYTE = Metric("bits_per_byte", lower_is_better=True)
BITS_PER_CHARACTER = Metric("bits_per_character", lower_is_better=True)

TASK = Task(
    name="lm",
    summary="Language modeling: LSTM, AWD-LSTM or Transformer-XL over running text, from words to perplexity",
    schema="phmrun.tasks.lm.config:LanguageModelExperiment",
    vocabulary="phmrun.tasks.lm.vocabulary:StreamVocabulary",
    data="phmrun.tasks.lm.data:build_data",
    module="phmrun.tasks.lm.module:build_module",
    predictor="phmrun.tasks.lm.predictor:build_predictor",
    formats=(
        Format(
            "running text",
            "one sentence or paragraph a line, tokenized, or raw: then punctuation is split from words",
            {"train.txt": "the dog sees the cat and the cat sees the dog .\nthe cat runs and the child sleeps .\n"},
        ),
    ),
    pipeline="text-generation",
    metrics=(PERPLEXITY, BITS_PER_BYTE, BITS_PER_CHARACTER),
    baselines=(
        Baseline("unigram", "each word by its frequency in training alone"),
        Baseline("5-gram", "sequences of up to five words counted in training (interpolated modified Kneser-Ney)"),
    ),
    networks={
        "lstm-lm": "phmrun.tasks.lm.lstm:LSTMLanguageModel",
        "transformer-xl": "phmrun.tasks.lm.transformer_xl:TransformerXL",
    },
)
