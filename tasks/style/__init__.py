"""Style transfer between modern and Shakespeare's English, with the encoder–decoder Transformer."""

from dataclasses import replace
from functools import partial

from phmrun.families.sequence_to_sequence import aligned
from phmrun.families.sequence_to_sequence.metrics import COPY, OF_TEXT
from phmrun.metric import PERCENT, Baseline, Deferred, Metric
from phmrun.task import Task


def _metric(name: str, title: str, **facts: bool) -> Metric:
    """Return a share of outputs, which `phmrun.tasks.style.data` counts."""
    reader = partial(Deferred("phmrun.tasks.style.data:read_items"), name=name)
    share = partial(Deferred("phmrun.metrics.parsing:share"), of=0, among=1)
    return Metric(name, title, "%", measure=share, read_items=reader, bounds=PERCENT, **facts)  # type: ignore[arg-type]


UNCHANGED = _metric("unchanged", "unchanged sentences", lower_is_better=True)
STYLE = _metric("style", "sentences in the target style")

TASK = Task(
    name="style",
    summary="Style transfer: a Transformer between modern and Shakespeare's English, beside copying the input",
    schema="phmrun.tasks.style.config:StyleExperiment",
    vocabulary="phmrun.text.vocabularies:Vocabularies",
    data="phmrun.tasks.style.data:build_data",
    module="phmrun.families.sequence_to_sequence.module:build_sequence_to_sequence",
    predictor="phmrun.families.sequence_to_sequence.predictor:Translator",
    converts=True,
    formats=(aligned("thou seest the cat .\nhe sleepeth .\n", "you see the cat .\nhe sleeps .\n"),),
    # Copying the source scores above every published model, so it is a reference, and no floor.
    metrics=(*(replace(metric, floors=()) for metric in OF_TEXT), UNCHANGED, STYLE),
    baselines=(COPY, Baseline("reference", "the references themselves")),
)
