"""Natural language inference: what one sentence says about another."""

from phmrun.config.task import Task

TASK = Task(
    name="nli",
    summary="Natural language inference: does a premise entail a hypothesis, contradict it, or neither?",
    schema="tasks.nli.config:InferenceExperiment",
    vocabulary="phmrun.text.labelled:LabelledVocabulary",
    data="tasks.nli.data:build_data",
    module="tasks.nli.module:build_module",
    predictor="tasks.nli.module:build_predictor",
)
