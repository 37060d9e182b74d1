"""The configuration of language modelling."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from phmrun.config import BatchConfig, Experiment, ModelConfig, Section, SplitFilesConfig, TrainingConfig, Unhashed
from phmrun.config.names import Registered
from phmrun.config.sections import MOST_LAYERS
from phmrun.registry import networks

Share = Annotated[float, Field(ge=0, lt=1)]

_DROPOUT = {"dropout": 0.1, "input_dropout": 0.1, "output_dropout": 0.1, "word_dropout": 0.0, "weight_dropout": 0.0}

ENTRIES = {"builtin": 1_767, "ptb": 10_000, "wikitext-2": 33_278, "wikitext-103": 267_735}
"""Different words of the corpora, the end of a line and the unknown word included."""


class StreamVocabularyConfig(Section):
    """Which words are known."""

    size: int | None = Field(
        None,
        ge=3,
        description="Most entries, the end of a line and the unknown word included; null: all words of the training "
        "text, as the literature has it.",
    )
    min_frequency: int | None = Field(
        None,
        ge=1,
        description="Words that are rarer in the training text are unknown; null: 2 for own text that is not "
        "tokenised, 1 otherwise.",
    )
    multiple_of: int = Field(
        1, ge=1, description="Unused entries fill the vocabulary up to a multiple of this, so that n divides it."
    )


class StreamDataConfig(SplitFilesConfig):
    """Which text, as which words."""

    language: Literal["en", "de"] = Field("en", description="Language of the built-in corpus; unused by others.")
    splitting: Literal["auto", "space", "punctuation"] = Field(
        "auto",
        description="Words stand between white space (space), or marks and clitics are words, too (punctuation); auto: "
        "punctuation for the built-in corpus and for own text with marks at the words' ends, else space.",
    )
    vocabulary: StreamVocabularyConfig = Field(StreamVocabularyConfig(), description="Which words are known.")

    @property
    def split_at(self) -> Literal["space", "punctuation"]:
        """How a line becomes words."""
        if self.splitting == "auto":
            return "punctuation" if self.name == "builtin" else "space"
        return self.splitting


class LanguageModelOptions(ModelConfig):
    """Shape of the network; naming a network or a preset sets further keys, which others then override."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "lstm": {**_DROPOUT, "output_bias": False},
        "awd-lstm": {**dict(zip(_DROPOUT, (0.3, 0.4, 0.4, 0.1, 0.5), strict=True)), "output_bias": True},
        "transformer-xl": {**_DROPOUT, "output_bias": True},
        "tiny": {"width": 128, "layers": 2, "hidden": 192, "inner": 256, "heads": 4, "head_width": 32, "memory": 48},
        "small": {"width": 256, "layers": 3, "hidden": 512, "inner": 512, "heads": 4, "head_width": 64, "memory": 70},
        "awd-lstm-ptb": {"width": 400, "layers": 3, "hidden": 1150},
        "lstm-wikitext-103": {"width": 256, "layers": 4, "hidden": 1024},
        "transformer-xl-wikitext-103": {
            "width": 410,
            "layers": 16,
            "inner": 2100,
            "heads": 10,
            "head_width": 41,
            "memory": 150,
        },
    }

    versions: ClassVar[Mapping[str, int]] = {
        "network=transformer-xl": 2,  # positions with the rates of the original, 10000^(-2i/width), not tensor2tensor's
        "weight_dropout": 2,  # masks from 16 random bits an entry, not from a random number
    }

    network: Annotated[str, Registered(networks("lm"))] = Field(
        "lstm",
        description="awd-lstm is the LSTM with output biases and with dropout in all places (Merity et al. 2018).",
    )
    preset: Annotated[
        Literal["tiny", "small", "awd-lstm-ptb", "lstm-wikitext-103", "transformer-xl-wikitext-103"], Unhashed()
    ] = Field("tiny", description="Sets the sizes; the last three are the papers'. Keys given beside it override it.")
    width: int = Field(128, ge=2, description="m: width of the last outputs, and of the word vectors.")
    layers: int = Field(
        2, ge=1, le=MOST_LAYERS, description="LSTMs, the last one of the width m, or blocks of the Transformer-XL."
    )
    hidden: int = Field(192, ge=1, description="LSTM: width of all LSTMs but the last.")
    maps: Literal["gate", "stacked"] = Field(
        "gate", description="LSTM: one weight matrix per gate and input, or one for all gates."
    )
    inner: int = Field(256, ge=1, description="Transformer-XL: width inside the feed-forward networks.")
    heads: int = Field(4, ge=1, description="Transformer-XL: attention heads.")
    head_width: int = Field(32, ge=1, description="Transformer-XL: width of a head's queries, keys and values.")
    memory: int = Field(48, ge=0, description="Transformer-XL: words before the segment that attention reaches.")
    tie: bool = Field(True, description="The output layer shares the words' own vectors.")
    vector_range: float | None = Field(
        None, gt=0, description="Word vectors begin uniform in ± this; null: as their embedding does."
    )
    output_bias: bool = Field(False, description="Biases in the output layer.")
    dropout: Share = Field(0.1, description="Share of units dropped between LSTMs; in the Transformer-XL of all units.")
    input_dropout: Share = Field(0.1, description="LSTM: share of input units dropped.")
    output_dropout: Share = Field(0.1, description="LSTM: share of units of the last outputs dropped.")
    word_dropout: Share = Field(0.0, description="LSTM: share of the vocabulary whose vectors are dropped as a whole.")
    weight_dropout: Share = Field(0.0, description="LSTM: share of recurrent weights dropped.")
    attention_dropout: Share = Field(0.0, description="Transformer-XL: share of attention weights dropped.")


class StreamBatchConfig(BatchConfig):
    """How much text goes into one micro-batch."""

    unit: Literal["streams"] = Field("streams", description="What `size` counts.")  # type: ignore[assignment]
    size: int = Field(20, ge=1, description="Streams of text read side by side.")
    length: int = Field(70, ge=1, description="Words of each stream per micro-batch: how far gradients flow back.")
    random_length: bool = Field(
        False, description="Lengths vary around `length`, and learning rates with them (Merity et al. 2018, section 5)."
    )


class LanguageTrainingConfig(TrainingConfig):
    """Length, optimisation, validation and checkpoints of a training run."""

    label_smoothing: float = Field(0.0, ge=0, le=0, description="There is none: perplexity is of the words themselves.")
    activation_penalty: float = Field(
        0.0, ge=0, description="α: weight of the mean square of the last LSTM's outputs, after dropout (AR)."
    )
    change_penalty: float = Field(
        0.0, ge=0, description="β: weight of the mean square of their change from word to word (TAR)."
    )


class LanguageDecodingConfig(Section):
    """How text is scored, and how it is continued."""

    streams: int = Field(
        10, ge=1, description="Scoring: equal parts that a text is read in side by side, each from nothing remembered."
    )
    length: int | None = Field(None, ge=1, description="Scoring: words read at a time; null: batch.length.")
    memory: int | None = Field(None, ge=0, description="Transformer-XL: words before them; null: model.memory.")
    clamp_len: int | None = Field(
        None, ge=1, description="Transformer-XL: scoring: words from whose distance on all count as equally far."
    )
    same_length: bool = Field(
        False,
        description="Transformer-XL: scoring: each word attends to as many, the nearest `memory` with itself, rather "
        "than to all of the memory and of its own segment.",
    )
    characters: Annotated[bool, Unhashed()] = Field(False, description="Scoring: bits per character as well.")
    codebooks: int = Field(
        0, ge=0, description="Scoring: inputs from a compressed table, sums of a codeword of each of so many; 0: as is."
    )
    codewords: int = Field(16, ge=2, description="See `codebooks`: codewords in each of them.")
    code_steps: int = Field(
        0,
        ge=0,
        description="See `codebooks`: gradient steps in which a network learns the codes (Shu and Nakayama 2018 take "
        "200,000); 0: codes by turns of least squares.",
    )
    batch: Annotated[int, Unhashed()] = Field(100, ge=1, description="Scoring: most parts read at a time.")
    mode: Annotated[Literal["continue", "surprisal"], Unhashed()] = Field(
        "continue", description="predict: continuations of each line, or how many bits each of its words takes."
    )
    words: Annotated[int, Unhashed()] = Field(50, ge=1, description="predict: most words of a continuation.")
    choice: Annotated[Literal["greedy", "sample"], Unhashed()] = Field(
        "greedy", description="predict: the most probable word each time, or a drawn one."
    )
    temperature: Annotated[float, Unhashed()] = Field(
        1.0, gt=0, description="sample: logits are divided by this; below 1 the probable gets more probable."
    )
    top_k: Annotated[int, Unhashed()] = Field(0, ge=0, description="sample: only from so many words; 0: from all.")
    top_p: Annotated[float, Unhashed()] = Field(
        1.0, gt=0, le=1, description="sample: only from the fewest words that have this share of the probability."
    )
    seed: Annotated[int, Unhashed()] = Field(1, ge=0, lt=2**32, description="sample: seed of the first line's draws.")
    across_lines: Annotated[bool, Unhashed()] = Field(
        True, description="surprisal: the lines are one text; else each begins with nothing remembered."
    )
    nbest: Annotated[int, Unhashed()] = Field(1, ge=1, description="sample: continuations of each line.")


class LanguageModelExperiment(Experiment):
    """Configuration of the task lm."""

    task: Literal["lm"] = Field("lm", description="Language modelling.")
    data: StreamDataConfig = Field(StreamDataConfig(), description="Running text and its words.")
    model: LanguageModelOptions = Field(LanguageModelOptions(), description="Shape of the network.")
    batch: StreamBatchConfig = Field(StreamBatchConfig(), description="Text of a micro-batch.")
    training: LanguageTrainingConfig = Field(
        LanguageTrainingConfig(), description="Length, optimisation, validation, checkpoints."
    )
    decoding: LanguageDecodingConfig = Field(LanguageDecodingConfig(), description="Scores and continuations.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Vocabulary entries, as many as are asked for, or as the corpus has."""
        vocabulary = self.data.vocabulary
        size = vocabulary.size or ENTRIES.get(self.data.name, ENTRIES["ptb"])
        return (-(-size // vocabulary.multiple_of) * vocabulary.multiple_of,)

    @property
    def evaluation_length(self) -> int:
        """Words read at a time where text is scored."""
        return self.decoding.length or self.batch.length

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.training.monitor != "loss":
            raise ValueError(f"training.monitor={self.training.monitor} is not among the scores of lm: loss")
        if self.decoding.nbest > 1 and self.decoding.choice == "greedy":
            raise ValueError("decoding.nbest needs decoding.choice=sample: greedy continuations are all the same")
        return self
