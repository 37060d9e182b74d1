"""Natural language inference: what one sentence says about another."""

from phmrun.registry import Task

TASK = Task(
    name="nli",
    summary="Natural language inference: does a premise entail a hypothesis, contradict it, or neither?",
    schema="phmrun.tasks.nli.config:NLIExperiment",
    vocabulary="phmrun.families.sentence_classification.vocabulary:ClassificationVocabulary",
    data="phmrun.tasks.nli.data:build_data",
    module="phmrun.tasks.nli.module:build_module",
    predictor="phmrun.tasks.nli.module:build_predictor",
)
