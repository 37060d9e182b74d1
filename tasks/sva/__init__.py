"""Subject–verb agreement: the number of a verb from the words before it."""

from phmrun.registry import Task

TASK = Task(
    name="sva",
    summary="Subject–verb agreement: is the next verb singular or plural? Accuracy by number of attractors",
    schema="phmrun.tasks.sva.config:AgreementExperiment",
    vocabulary="phmrun.families.sentence_classification.vocabulary:ClassificationVocabulary",
    data="phmrun.tasks.sva.data:build_data",
    module="phmrun.tasks.sva.module:build_module",
    predictor="phmrun.tasks.sva.module:build_predictor",
)
