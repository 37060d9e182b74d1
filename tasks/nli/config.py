"""The configuration of natural language inference."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from phmrun.config.sections import MOST_LAYERS, FilePath, ModelConfig
from phmrun.families.sentence_classification.config import ClassificationDataConfig, ClassificationExperiment


class NLIDataConfig(ClassificationDataConfig):
    """Which sentence pairs, as which words, with which vectors."""

    vectors: FilePath = Field(
        None,
        description="Pretrained word vectors in GloVe's text format, plain or .gz: a file, here or in the data "
        "directory (glove/glove.6B.300d.txt); null: vectors are learnt.",
    )

    labels: dict[str, str] | None = Field(
        None,
        description="Of own files: the class that each label stands for, as {yes: entailment, no: contradiction}, or "
        "a list of labels; any number of classes. null: entailment, neutral, contradiction.",
    )

    @field_validator("labels", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return {_label(key): _label(name) for key, name in value.items()}
        if isinstance(value, list) and all(isinstance(name, str | int | float) for name in value):
            return {_label(name): _label(name) for name in value}
        return value

    @model_validator(mode="after")
    def _of_own_files(self) -> Self:
        if self.labels is not None and self.name != "files":
            raise ValueError(f"labels are those of your own files (name=files), not of name={self.name}")
        if self.labels is not None and len(set(self.labels.values())) < 2:
            raise ValueError("labels name at least two classes")
        return self

    def testing(self, *paths: Path) -> Self:
        """The section with the user's own pairs as the test set and nothing to learn from."""
        return super().testing(*paths).model_copy(update={"vectors": None})


def _label(value: Any) -> Any:
    """A label as it stands in a file: YAML takes 0 for a number and no for false."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


class NLIModelConfig(ModelConfig):
    """Shape of the network: one LSTM reads both sentences, an MLP compares them."""

    width: int = Field(300, ge=1, description="Numbers of an input vector of the LSTM.")
    hidden: int = Field(300, ge=1, description="Numbers of a hidden vector of the LSTM.")
    layers: int = Field(1, ge=1, le=MOST_LAYERS, description="Layers of the LSTM.")
    bidirectional: bool = Field(False, description="A second LSTM reads backwards.")
    gate_maps: Literal["gate", "stacked"] = Field(
        "gate", description="The LSTM's maps: one per gate for each of input and hidden vector, or one for all gates."
    )
    cell: Literal["standard", "linear-output"] = Field(
        "standard",
        description="The LSTM's cell: h = σ(o) ∘ tanh(c), or h = o ∘ c, as Zhang et al. 2021 print theirs; slow.",
    )
    pooling: Literal["mean", "max", "last", "max-mean"] = Field(
        "max-mean", description="How the LSTM's outputs along a sentence become one vector."
    )
    matching: Literal["concat", "full"] = Field(
        "concat",
        description="What the MLP gets of the sentences' vectors u and v: both side by side (the papers), or |u - v| "
        "and u * v with them, which learns more from few pairs.",
    )
    mlp: int = Field(300, ge=1, description="Numbers of a hidden vector of the MLP.")
    mlp_layers: int = Field(2, ge=0, le=MOST_LAYERS, description="Hidden layers of the MLP.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Share of the inputs of LSTM and MLP dropped.")
    word_dropout: float = Field(0.0, ge=0, lt=1, description="Share of words whose whole vector is dropped.")
    train_embedding: bool | None = Field(
        None, description="Learn the words' own vectors; null: unless pretrained ones are given."
    )


class NLIExperiment(ClassificationExperiment):
    """Configuration of the task nli."""

    task: Literal["nli"] = Field("nli", description="Natural language inference.")
    data: NLIDataConfig = Field(NLIDataConfig(), description="Sentence pairs and their words.")
    model: NLIModelConfig = Field(NLIModelConfig(), description="Shape of the network.")

    @property
    def format(self) -> str:
        """How the files of its data are read; see :mod:`phmrun.text.nli_pairs`."""
        from phmrun.datasets import CATALOGUE

        return "tsv" if self.data.name in ("builtin", "files") else CATALOGUE.get(self.data.name).format

    @property
    def labels(self) -> tuple[str, ...]:
        """How the second sentence can relate to the first."""
        from phmrun.text.nli_pairs import LABELS

        if self.data.labels is not None:
            return tuple(dict.fromkeys(self.data.labels.values()))
        return LABELS[self.format]

    @property
    def learns_vectors(self) -> bool:
        """Whether the words' own vectors are learnt."""
        given = self.model.train_embedding
        return self.data.vectors is None if given is None else given

    @property
    def vector_width(self) -> int:
        """Numbers of a word's own vector."""
        narrow = self.embedding.options.get("width") if self.embedding.structure == "projective" else None
        return narrow or self.model.width

    @model_validator(mode="after")
    def _vectors_have_a_table(self) -> Self:
        if self.data.vectors is not None and self.embedding.structure not in ("dense", "projective"):
            raise ValueError(
                f"data.vectors needs embedding.structure=dense, or projective, not {self.embedding.structure}"
            )
        return self
