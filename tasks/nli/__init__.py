"""Natural language inference: relation of two sentences."""

from phmrun.families.sentence_classification.metrics import ACCURACY, MAJORITY
from phmrun.metric import Baseline
from phmrun.task import Format, Task

PAIRS = (
    "A dog sleeps .\tAn animal sleeps .\tentailment\n"
    "A dog sleeps .\tA dog runs .\tcontradiction\n"
    "A dog sleeps .\tThe dog is old .\tneutral\n"
)

TASK = Task(
    name="nli",
    summary="Natural language inference: does a premise entail a hypothesis, contradict it, or neither?",
    schema="phmrun.tasks.nli.config:NLIExperiment",
    vocabulary="phmrun.families.sentence_classification.items:ClassificationVocabulary",
    data="phmrun.tasks.nli.data:build_data",
    module="phmrun.families.sentence_classification.module:build_module",
    predictor="phmrun.families.sentence_classification.predictor:SentenceClassifier",
    formats=(
        Format(
            "columns",
            "premise, hypothesis, label, separated by tabs; other labels or classes: data.labels",
            {"train.tsv": PAIRS},
        ),
        Format(
            "table",
            "the same below a header that names the columns, in any order, beside others",
            {"train.tsv": f"premise\thypothesis\tlabel\n{PAIRS}"},
        ),
        Format(
            "JSON lines",
            "one object a line with these keys",
            {
                "train.jsonl": "".join(
                    f'{{"premise": "{premise}", "hypothesis": "{hypothesis}", "label": "{label}"}}\n'
                    for premise, hypothesis, label in (line.split("\t") for line in PAIRS.splitlines())
                )
            },
        ),
    ),
    metrics=(ACCURACY,),
    baselines=(MAJORITY, Baseline("bag-of-words", "logistic regression on the words of the training pairs")),
    networks={"nli-lstm": "phmrun.models.sentences:LSTMClassifier"},
)
