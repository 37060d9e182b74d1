"""Configuration of natural language inference."""

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from phmrun.config.names import Registered
from phmrun.config.sections import FilePath
from phmrun.families.sentence_classification.config import ClassificationDataConfig, ClassificationExperiment
from phmrun.models.options import HuggingFaceOptions, LSTMClassifierOptions
from phmrun.registry import networks


class NLIDataConfig(ClassificationDataConfig):
    """Sentence pairs, their words, and pretrained vectors."""

    vectors: FilePath = None
    """File of pretrained word vectors in GloVe's text format, plain or .gz, here or in the data directory
    (glove/glove.6B.300d.txt); null: vectors are learned.
    """

    labels: dict[str, str | None] | None = None
    """For your own files: class of each label, as {yes: entailment, no: contradiction}, or a list of labels (words or
    numbers), for any number of classes. Pairs of a label whose class is null are dropped: {-1: null}. Default:
    entailment, neutral, contradiction.
    """

    @field_validator("labels", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        """Return labels as a mapping of texts; a list maps each label to itself.

        Other values are returned unchanged, for pydantic to judge.
        """
        if isinstance(value, dict):
            return {_label(key): _label(name) for key, name in value.items()}
        if isinstance(value, list) and all(isinstance(name, str | int | float) for name in value):
            return {_label(name): _label(name) for name in value}
        return value

    @model_validator(mode="after")
    def _of_own_files(self) -> Self:
        """Check the mapping of labels.

        Raises:
            ValueError: Labels are set for data that are not the user's own files, or name fewer than two classes.
        """
        if self.labels is not None and self.name != "files":
            raise ValueError(f"labels are those of your own files (name=files), not of name={self.name}")
        if self.labels is not None and len(set(self.labels.values()) - {None}) < 2:
            raise ValueError("labels name at least two classes")
        return self

    def testing(self, *paths: Path) -> Self:
        """Return a copy with the user's own pairs as test set.

        It has no training data and no vectors.
        """
        return super().testing(*paths).model_copy(update={"vectors": None})


def _label(value: Any) -> Any:
    """Return a value that YAML has read, as text.

    Numbers and truth values become the text in the file. Other values are unchanged.
    """
    return json.dumps(value) if isinstance(value, bool | int | float) else value


class NLIOptions(LSTMClassifierOptions, HuggingFaceOptions):
    """Shape of the network that reads a pair of sentences."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {"hf": {"width": 128, "layers": 2, "dropout": 0.1}}

    network: Annotated[str, Registered(networks("nli"))] = "lstm"
    """Network of both sentences: an LSTM, or hf, a network of Hugging Face's transformers, read from `path` or with
    fresh weights.
    """
    family: Literal["bert", "llama", "qwen3", "gpt2"] = "bert"
    """hf without `path`: kind of network, with width, feedforward, layers, heads and dropout."""
    feedforward: int = Field(512, ge=1)
    """hf without `path`: width of the feed-forward networks."""
    heads: int = Field(4, ge=1)
    """hf without `path`: attention heads."""


class NLIExperiment(ClassificationExperiment):
    """Configuration of the task nli."""

    prompt = "a premise, a tab, a hypothesis, or a JSON object of both"
    names = ("premise", "hypothesis")

    task: Literal["nli"] = "nli"
    """Natural language inference."""
    data: NLIDataConfig = NLIDataConfig()
    """Sentence pairs and their words."""
    model: NLIOptions = NLIOptions()
    """Shape of the network."""

    @property
    def format(self) -> str:
        """Format of the data files, see :mod:`phmrun.text.nli_pairs`.

        It is "tsv" for the built-in data and the user's own, else that of the dataset.
        """
        from phmrun.datasets import CATALOGUE

        return "tsv" if self.data.name in ("builtin", "files") else CATALOGUE.get(self.data.name).format

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes: of ``data.labels`` if set, else of the format."""
        from phmrun.text.nli_pairs import LABELS

        if self.data.labels is not None:
            return tuple(dict.fromkeys(name for name in self.data.labels.values() if name is not None))
        return LABELS[self.format]

    @property
    def lstm(self) -> LSTMClassifierOptions:
        """Options of the LSTM.

        Word vectors are trained as configured; by default, pretrained ones are not.
        """
        setting = self.model.train_embedding
        learns = self.data.vectors is None if setting is None else setting
        return self.model.model_copy(update={"train_embedding": learns})

    @property
    def vector_width(self) -> int:
        """Width of a word's own vector, before a projection.

        It is ``embedding.width`` of a projection, else ``model.width``.
        """
        narrow = self.embedding.options.get("width") if self.embedding.structure == "projective" else None
        return narrow or self.model.width

    @model_validator(mode="after")
    def _vectors_have_a_table(self) -> Self:
        """Check that the embedding is a table of the LSTM's if there are pretrained vectors.

        Raises:
            ValueError: Its structure is neither "dense" nor "projective", or the network is one of transformers.
        """
        if self.data.vectors is not None and self.model.network == "hf":
            raise ValueError("data.vectors needs model.network=lstm")
        if self.data.vectors is not None and self.embedding.structure not in ("dense", "projective"):
            what = f"data.vectors needs embedding.structure=dense, or projective, not {self.embedding.structure}"
            raise ValueError(what)
        return self
