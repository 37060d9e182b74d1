"""Dependency parsing with the deep biaffine parser."""

from phmrun.task import Format, Task
from phmrun.tasks.parse.metrics import CLAS, LABEL_ACCURACY, LAS, NEIGHBOUR, UAS

TASK = Task(
    name="parse",
    summary="Dependency parsing: the deep biaffine parser from CoNLL-U treebanks to attachment scores",
    schema="phmrun.tasks.parse.config:ParsingExperiment",
    vocabulary="phmrun.tasks.parse.vocabulary:TreebankVocabulary",
    data="phmrun.tasks.parse.data:build_data",
    module="phmrun.tasks.parse.module:build_module",
    predictor="phmrun.tasks.parse.predictor:build_predictor",
    formats=(
        Format(
            "CoNLL-U",
            "a word a line in ten columns separated by tabs, an empty line after each sentence",
            {
                "train.conllu": "1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\tdog\tNOUN\t_\t_\t3\tnsubj\t_\t_\n"
                "3\tsleeps\tsleep\tVERB\t_\t_\t0\troot\t_\t_\n\n"
            },
        ),
    ),
    metrics=(UAS, LAS, CLAS, LABEL_ACCURACY),
    baselines=(NEIGHBOUR,),
    networks={"biaffine-parser": "phmrun.tasks.parse.biaffine_parser:BiaffineParser"},
)
