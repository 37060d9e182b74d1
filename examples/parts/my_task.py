"""My task: a label for a sentence."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from phmrun.config.sections import ModelConfig
from phmrun.datasets import checksums, locate, own_texts, splits_here
from phmrun.datasets.catalogue import CATALOGUE
from phmrun.engine.module import criterion
from phmrun.engine.optimizers import optimizer_from
from phmrun.engine.schedules import schedule_from
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sentence_classification.config import ClassificationExperiment
from phmrun.families.sentence_classification.data import ClassificationCorpus, ClassificationData
from phmrun.families.sentence_classification.items import Item
from phmrun.families.sentence_classification.metrics import ACCURACY, MAJORITY
from phmrun.families.sentence_classification.module import ClassificationModule
from phmrun.layers import Linear, build_embedding
from phmrun.models.sentences import ClassScores, Sentences, pooled
from phmrun.registry import TASKS
from phmrun.task import Format, Task
from phmrun.text.lines import numbered_lines

LABELS = ("yes", "no")


class MyTaskModelConfig(ModelConfig):
    """Shape of the network: the mean of the words' vectors, one map, and the classes."""

    width: int = Field(64, ge=2, description="Width of the word vectors.")
    dropout: float = Field(0.1, ge=0, lt=1, description="Share of each map's inputs dropped.")


class MyTaskExperiment(ClassificationExperiment):
    """Configuration of the task my-task."""

    task: Literal["my-task"] = Field("my-task", description="My task.")
    model: MyTaskModelConfig = Field(MyTaskModelConfig(), description="Shape of the network.")

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels of a sentence."""
        return LABELS


def build_data(config: MyTaskExperiment, cache: Path) -> ClassificationData:
    """Return the data module of an experiment, with its prepared data in ``cache``.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    name = config.data.name
    if name == "builtin":
        hint = "Give --train, --dev and --test FILE; `phmrun schema my-task --files --plugin FILE` prints a sample."
        raise PhmrunError("the task my-task has no built-in data", where="data.name", hint=hint, code=ExitCode.DATA)
    if name == "files":
        paths, sums = own_texts(config.data)
    else:
        splits = splits_here(CATALOGUE.get(name))
        paths, sums = {split: files["items"] for split, files in locate(name, splits).items()}, checksums(name, splits)
    readers = {split: partial(read, path) for split, path in paths.items()}
    return ClassificationData(config, ClassificationCorpus(readers, paths, sums, {"format": "lines"}), cache)


def read(path: Path) -> Iterator[Item]:
    """Yield the items of a file, UTF-8, plain or gzip.

    Raises:
        PhmrunError: (exit 3) A line has no known label.
    """
    for number, line in numbered_lines(path):
        label, _, sentence = line.partition("\t")
        if label not in LABELS:
            where = f"{path}:{number}"
            raise PhmrunError(f"there is no label {label!r}", where=where, valid=LABELS, code=ExitCode.DATA)
        yield Item((sentence,), label)


class MyTask(nn.Module):
    """Logits of the classes from the mean of the words' vectors."""

    def __init__(
        self, words: int, classes: int, width: int, dropout: float, *, layer: Any, embedding: Any, output: Any
    ) -> None:
        super().__init__()
        self.embedding = build_embedding(words, width, **embedding)
        self.map = Linear(width, width, **layer)
        self.dropout = nn.Dropout(dropout)
        self.output = ClassScores(width, classes, **output)

    def forward(self, sentences: Sentences) -> Tensor:
        """Logits ``[batch, classes]``."""
        words = pooled(self.embedding(sentences.tokens), sentences.lengths, "mean")
        logits: Tensor = self.output(torch.relu(self.map(self.dropout(words))))
        return logits


def build_module(config: MyTaskExperiment, words: int, classes: int) -> ClassificationModule:
    """Return the module of an experiment for these numbers of words and classes."""
    training, model = config.training, config.model
    return ClassificationModule(
        MyTask(words, classes, model.width, model.dropout, **config.structures),
        optimizer_from(training.optimizer),
        schedule_from(training, model.width),
        smoothing=training.label_smoothing,
        criterion=criterion(training.loss),
    )


TASK = Task(
    name="my-task",
    summary="My task: a label for a sentence",
    schema="phmrun_plugin_my_task:MyTaskExperiment",
    vocabulary="phmrun.families.sentence_classification.items:ClassificationVocabulary",
    data="phmrun_plugin_my_task:build_data",
    module="phmrun_plugin_my_task:build_module",
    predictor="phmrun.families.sentence_classification.predictor:SentenceClassifier",
    formats=(Format("lines", "a label, a tab, a sentence", {"train.tsv": "yes\ta dog sleeps\nno\tthe cat runs\n"}),),
    metrics=(ACCURACY,),
    baselines=(MAJORITY,),
)

TASKS.add("my-task", TASK)
