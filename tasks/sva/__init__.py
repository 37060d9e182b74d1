"""Subject–verb agreement: number of a verb from the words before it."""

from phmrun.families.sentence_classification.metrics import ACCURACY, MAJORITY
from phmrun.metric import Baseline
from phmrun.task import Format, Task

TASK = Task(
    name="sva",
    summary="Subject–verb agreement: is the next verb singular or plural? Accuracy by number of attractors",
    schema="phmrun.tasks.sva.config:AgreementExperiment",
    vocabulary="phmrun.families.sentence_classification.items:ClassificationVocabulary",
    data="phmrun.tasks.sva.data:build_data",
    module="phmrun.families.sentence_classification.module:build_module",
    predictor="phmrun.families.sentence_classification.predictor:SentenceClassifier",
    formats=(
        Format(
            "lines",
            "VBZ (singular) or VBP (plural), a tab, the words before the verb",
            {"train.tsv": "VBZ\tthe dog near the cats\nVBP\tthe dogs near the cat\n"},
        ),
        Format(
            "table",
            "tab-separated below a header with at least these columns; verb_index counts words from 1",
            {
                "train.tsv": "sentence\tverb_pos\tverb_index\tn_intervening\tn_diff_intervening\n"
                "the dog near the cats sleeps\tVBZ\t6\t1\t1\n"
            },
        ),
    ),
    metrics=(ACCURACY,),
    baselines=(MAJORITY, Baseline("nearest-noun", "the number of the nearest noun before the verb")),
    networks={"sva-encoder": "phmrun.tasks.sva.encoder_classifier:EncoderClassifier"},
)
