"""Neural machine translation with the encoder–decoder Transformer."""

from phmrun.registry import Task

TASK = Task(
    name="nmt",
    summary="Neural machine translation: a Transformer from raw sentence pairs to sacreBLEU",
    schema="phmrun.tasks.nmt.config:TranslationExperiment",
    vocabulary="phmrun.text.vocabularies:Vocabularies",
    data="phmrun.tasks.nmt.data:build_data",
    module="phmrun.tasks.nmt.module:build_module",
    predictor="phmrun.tasks.nmt.module:build_predictor",
    converts=True,
)
