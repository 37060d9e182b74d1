"""Dependency parsing with the deep biaffine parser."""

from phmrun.metric import PERCENT, Baseline, Deferred, Metric
from phmrun.task import Format, Task

_ITEMS = Deferred("phmrun.tasks.parse.predictor:read_items")
_FLOORS = ("neighbour",)


def _metric(name: str, title: str, margin: float | None = None) -> Metric:
    """Return an attachment score in percent, with its function in `phmrun.metrics.parsing`."""
    measure = Deferred(f"phmrun.metrics.parsing:{name.replace('-', '_')}_of")
    shown = {"margin": margin, "is_share": margin is not None, "bounds": PERCENT}
    return Metric(name, title, "%", measure=measure, read_items=_ITEMS, floors=_FLOORS, **shown)  # type: ignore[arg-type]


UAS, LAS = _metric("uas", "UAS", 0.5), _metric("las", "LAS", 0.5)
CLAS, LABEL_ACCURACY = _metric("clas", "CLAS"), _metric("label-accuracy", "label accuracy")
NEIGHBOUR = Baseline("neighbour", "each word has the arc that is most frequent for its tag in training")

TASK = Task(
    name="parse",
    summary="Dependency parsing: the deep biaffine parser from CoNLL-U treebanks to attachment scores",
    schema="phmrun.tasks.parse.config:ParsingExperiment",
    vocabulary="phmrun.tasks.parse.vocabulary:TreebankVocabulary",
    data="phmrun.tasks.parse.data:build_data",
    module="phmrun.tasks.parse.module:build_module",
    predictor="phmrun.tasks.parse.predictor:TreeParser",
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
