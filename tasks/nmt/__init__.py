"""Neural machine translation with the encoder–decoder Transformer."""

from phmrun.registry import Task

TASK = Task(
    name="nmt",
    summary="Neural machine translation: a Transformer from raw sentence pairs to sacreBLEU",
    schema="phmrun.tasks.nmt.config:TranslationExperiment",
    vocabulary="phmrun.text.vocabularies:Vocabularies",
    data="phmrun.tasks.nmt.data:build_data",
    module="phmrun.families.sequence_to_sequence.module:build_sequence_to_sequence",
    predictor="phmrun.families.sequence_to_sequence.predictor:build_translator",
    converts=True,
)
