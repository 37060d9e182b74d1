"""Subject–verb agreement: the number of a verb from the words before it."""

from phmrun.config.task import Task

TASK = Task(
    name="sva",
    summary="Subject–verb agreement: is the next verb singular or plural? Accuracy by number of attractors",
    schema="tasks.sva.config:AgreementExperiment",
    vocabulary="phmrun.text.labelled:LabelledVocabulary",
    data="tasks.sva.data:build_data",
    module="tasks.sva.module:build_module",
    predictor="tasks.sva.module:build_predictor",
)
