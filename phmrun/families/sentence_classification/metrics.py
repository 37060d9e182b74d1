"""Accuracy and baselines of classification tasks."""

from functools import partial

from phmrun.metric import PERCENT, Baseline, Deferred, Metric

ACCURACY = Metric(
    "accuracy",
    unit="%",
    margin=0.5,
    is_share=True,
    measure=partial(Deferred("phmrun.metrics.parsing:share"), of=0, among=1),
    read_items=Deferred("phmrun.families.sentence_classification.items:read_items"),
    floors=("majority", "nearest-noun", "bag-of-words"),
    bounds=PERCENT,
)
MAJORITY = Baseline("majority", "the commonest label, always")
