"""Configuration of subject–verb agreement."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from phmrun.config.names import Registered
from phmrun.config.sections import MOST_LAYERS
from phmrun.families.sentence_classification.config import ClassificationDataConfig, ClassificationExperiment
from phmrun.models.options import HuggingFaceOptions, LSTMClassifierOptions
from phmrun.registry import networks

LABELS = ("singular", "plural")


class AgreementDataConfig(ClassificationDataConfig):
    """Labeled prefixes and their words."""

    reduced: bool | Literal["natural"] = Field(  # type: ignore[assignment]  # wider than the family's
        False,
        description="A reduced setting: learn from the dataset's validation file, without what also occurs in a test "
        "file. With true, 10 % is held out; the test set is this share and the files by attractors. With natural, 20 % "
        "is held out and is the test set; `--set score_on=[test,test_1]` also scores a file by attractors.",
    )


class AgreementOptions(HuggingFaceOptions):
    """Shape of the network that reads a prefix."""

    network: Annotated[str, Registered(networks("sva"))] = "transformer"
    """A Transformer encoder, an LSTM, or hf, a network of Hugging Face's transformers, read from `path` or with fresh
    weights.
    """
    family: Literal["bert", "llama", "qwen3", "gpt2"] = "bert"
    """hf without `path`: kind of network, with width, feedforward, layers, heads and dropout."""
    width: int = Field(128, ge=2)
    """Width of the hidden states and embeddings."""
    layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Number of blocks of the encoder, or layers of the LSTM."""
    feedforward: int = Field(512, ge=1)
    """Width of the encoder's feed-forward networks."""
    heads: int = Field(4, ge=1)
    """Attention heads of the encoder; a divisor of the width."""
    norm: Literal["pre", "post"] = "pre"
    """Layer normalization before or after each sublayer."""
    pooling: Literal["mean", "max", "last", "max-mean"] = "mean"
    """Pooling of the outputs over a prefix; last: output of the end token."""
    dropout: float = Field(0.1, ge=0, lt=1)
    """Share of residual, embedding and summary units dropped."""
    word_dropout: float = Field(0.0, ge=0, lt=1)
    """Share of words whose whole vector is dropped."""
    attention_dropout: float = Field(0.1, ge=0, lt=1)
    """Share of attention weights dropped."""
    activation_dropout: float = Field(0.1, ge=0, lt=1)
    """Share of feed-forward units dropped."""
    attention_maps: Literal["joint", "separate"] = "joint"
    """Queries, keys and values as one weight matrix or as three."""
    bias: bool = True
    """Biases in the attention's maps."""
    gate_maps: Literal["gate", "stacked"] = "gate"
    """LSTM: one weight matrix per gate and input, or one for all gates."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the heads of the Transformer divide the width.

        Raises:
            ValueError: They do not.
        """
        if self.network == "transformer" and self.width % self.heads:
            raise ValueError(f"{self.heads} heads do not divide the width {self.width}")
        return self


class AgreementExperiment(ClassificationExperiment):
    """Configuration of the task sva."""

    prompt = "the words before a verb, one prefix a line"
    names = ("prefix",)

    task: Literal["sva"] = "sva"
    """Subject–verb agreement."""
    data: AgreementDataConfig = AgreementDataConfig()
    """Labeled sentences and their words."""
    model: AgreementOptions = AgreementOptions()
    """Shape of the network."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Numbers of a verb: singular, plural."""
        return LABELS

    @property
    def lstm(self) -> LSTMClassifierOptions:
        """Options of the LSTM: its hidden width is the embedding width, and it has no MLP.

        Others have the values of the section ``model``, if it has them.
        """
        shared = self.model.model_dump(
            include=AgreementOptions.model_fields.keys() & LSTMClassifierOptions.model_fields
        )
        return LSTMClassifierOptions(hidden=self.model.width, mlp_layers=0, **shared)
