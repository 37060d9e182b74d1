"""Neural machine translation with the encoder–decoder Transformer."""

from phmrun.families.sequence_to_sequence import aligned
from phmrun.families.sequence_to_sequence.metrics import COPY, OF_TEXT
from phmrun.metric import Baseline
from phmrun.task import Task

TASK = Task(
    name="nmt",
    summary="Neural machine translation: a Transformer from raw sentence pairs to sacreBLEU",
    schema="phmrun.tasks.nmt.config:TranslationExperiment",
    vocabulary="phmrun.text.vocabularies:Vocabularies",
    data="phmrun.tasks.nmt.data:build_data",
    module="phmrun.families.sequence_to_sequence.module:build_sequence_to_sequence",
    predictor="phmrun.families.sequence_to_sequence.predictor:Translator",
    converts=True,
    formats=(aligned("a dog sees the cat .\nthe cat sleeps .\n", "un chien voit le chat .\nle chat dort .\n"),),
    metrics=OF_TEXT,
    baselines=(COPY, Baseline("dictionary", "word by word, by a dictionary learned from the training pairs")),
    networks={"transformer": "phmrun.models.transformer:Transformer"},
)
