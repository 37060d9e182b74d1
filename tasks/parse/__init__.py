"""Dependency parsing with the deep biaffine parser."""

from phmrun.registry import Task

TASK = Task(
    name="parse",
    summary="Dependency parsing: the deep biaffine parser from CoNLL-U treebanks to attachment scores",
    schema="phmrun.tasks.parse.config:ParsingExperiment",
    vocabulary="phmrun.tasks.parse.vocabulary:TreebankVocabulary",
    data="phmrun.tasks.parse.data:build_data",
    module="phmrun.tasks.parse.module:build_module",
    predictor="phmrun.tasks.parse.predictor:build_predictor",
)
