"""Dependency parsing with the deep biaffine parser."""

from phmrun.config.task import Task

TASK = Task(
    name="parse",
    summary="Dependency parsing: the deep biaffine parser from CoNLL-U treebanks to attachment scores",
    schema="tasks.parse.config:ParsingExperiment",
    vocabulary="phmrun.text.treebank:TreebankVocabulary",
    data="tasks.parse.data:build_data",
    module="tasks.parse.module:build_module",
    predictor="tasks.parse.predictor:build_predictor",
)
