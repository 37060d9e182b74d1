"""Language modelling: LSTMs, AWD-LSTM and Transformer-XL over running text."""

from phmrun.config.task import Task

TASK = Task(
    name="lm",
    summary="Language modelling: LSTM, AWD-LSTM or Transformer-XL over running text, from words to perplexity",
    schema="tasks.lm.config:LanguageModelExperiment",
    vocabulary="phmrun.text.stream_vocabulary:StreamVocabulary",
    data="tasks.lm.data:build_data",
    module="tasks.lm.module:build_module",
    predictor="tasks.lm.module:build_predictor",
)
