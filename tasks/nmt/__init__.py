"""Neural machine translation with the encoder–decoder Transformer."""

from phmrun.config.task import Task

TASK = Task(
    name="nmt",
    summary="Neural machine translation: a Transformer from raw sentence pairs to sacreBLEU",
    schema="tasks.nmt.config:TranslationExperiment",
    vocabulary="phmrun.text.vocabulary:Vocabularies",
    data="tasks.nmt.data:build_data",
    module="tasks.nmt.module:build_module",
    predictor="tasks.nmt.module:build_predictor",
)
