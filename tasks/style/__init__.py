"""Style transfer: modern English to Shakespeare's and back, with the encoder–decoder Transformer."""

from phmrun.families.sequence_to_sequence import aligned
from phmrun.registry import Task

TASK = Task(
    name="style",
    summary="Style transfer: a Transformer between modern and Shakespeare's English, beside copying the input",
    schema="phmrun.tasks.style.config:StyleExperiment",
    vocabulary="phmrun.text.vocabulary:Vocabularies",
    data="phmrun.tasks.style.data:build_data",
    module="phmrun.families.sequence_to_sequence.module:build_sequence_to_sequence",
    predictor="phmrun.families.sequence_to_sequence.predictor:build_translator",
    converts=True,
    formats=(aligned("thou seest the cat .\nhe sleepeth .\n", "you see the cat .\nhe sleeps .\n"),),
    pipeline="text2text-generation",
)
