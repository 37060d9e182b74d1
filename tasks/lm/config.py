"""Configuration of language modeling."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from phmrun.config import BatchConfig, Experiment, Section, TrainingConfig, Unhashed
from phmrun.config.names import Registered
from phmrun.config.sections import MOST_LAYERS, FilePath, SplitFilesConfig
from phmrun.models.options import HuggingFaceOptions
from phmrun.registry import networks

Share = Annotated[float, Field(ge=0, lt=1)]

_DROPOUT = {"dropout": 0.1, "input_dropout": 0.1, "output_dropout": 0.1, "word_dropout": 0.0, "weight_dropout": 0.0}
_HF = {"network": "hf"}

ENTRIES = {"builtin": 1_767, "ptb": 10_000, "wikitext-2": 33_278, "wikitext-103": 267_735}
"""Vocabulary entries of the corpora, end of line and unknown word included."""
BPE = 8000  # tokens, unless configured


class StreamVocabularyConfig(Section):
    """Vocabulary of running text."""

    needs = (("kind=word", "min_frequency"),)

    kind: Literal["word", "bpe"] = "word"
    """word: words of the training text; bpe: byte-level BPE learned from it. With model.path, the model's tokens count.
    """
    size: int | None = Field(None, ge=3)
    """Maximum number of entries, end of line and unknown word included; null: all words of the training text, as in the
    literature, or 8,000 tokens of BPE.
    """
    min_frequency: int | None = Field(None, ge=1)
    """Minimum count in the training text; rarer words are unknown. null: 2 for own untokenized text, 1 otherwise."""
    multiple_of: int = Field(1, ge=1)
    """The vocabulary is padded to a multiple of this, so that n divides it."""
    path: FilePath = None
    """Folder `vocabulary` of a run, used instead of the words of the training text."""


class StreamDataConfig(SplitFilesConfig):
    """Running text and its words."""

    needs = (("vocabulary.kind=word", "splitting"),)

    language: Literal["en", "de"] = "en"
    """Language of the built-in corpus; unused by others."""
    splitting: Literal["auto", "space", "punctuation"] = "auto"
    """space: split at white space; punctuation: also split off punctuation marks and clitics; auto: punctuation for the
    built-in corpus and for your own untokenized text, else space.
    """
    vocabulary: StreamVocabularyConfig = StreamVocabularyConfig()
    """Vocabulary of the text."""

    @property
    def split_at(self) -> Literal["space", "punctuation"]:
        """Splitting of lines into words.

        "auto" is "punctuation" for the built-in corpus, else "space".
        """
        if self.splitting == "auto":
            return "punctuation" if self.name == "builtin" else "space"
        return self.splitting


class LanguageModelOptions(HuggingFaceOptions):
    """Shape of the network.

    A network or preset sets further keys, which explicit keys override.
    """

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "hf": {"dropout": 0.0, "tie": False},
        "lstm": {**_DROPOUT, "output_bias": False},
        "awd-lstm": {**dict(zip(_DROPOUT, (0.3, 0.4, 0.4, 0.1, 0.5), strict=True)), "output_bias": True},
        "transformer-xl": {**_DROPOUT, "output_bias": True},
        "tiny": {"width": 128, "layers": 2, "hidden": 192, "inner": 256, "heads": 4, "head_width": 32, "memory": 48},
        "small": {"width": 256, "layers": 3, "hidden": 512, "inner": 512, "heads": 4, "head_width": 64, "memory": 70},
        "llama-1m": {**_HF, "family": "llama", "width": 128, "inner": 344, "layers": 5, "heads": 4},
        "llama-3m": {**_HF, "family": "llama", "width": 256, "inner": 688, "layers": 4, "heads": 4},
        "llama-9m": {**_HF, "family": "llama", "width": 384, "inner": 1024, "layers": 5, "heads": 6},
        "llama-60m": {**_HF, "family": "llama", "width": 512, "inner": 1376, "layers": 8, "heads": 8},
        "gpt2-tiny": {**_HF, "family": "gpt2", "width": 128, "inner": 512, "layers": 2, "heads": 4},
        "awd-lstm-ptb": {"network": "awd-lstm", "width": 400, "layers": 3, "hidden": 1150},
        "lstm-wikitext-103": {"network": "lstm", "width": 256, "layers": 4, "hidden": 1024},
        "transformer-xl-wikitext-103": {
            "network": "transformer-xl",
            "width": 410,
            "layers": 16,
            "inner": 2100,
            "heads": 10,
            "head_width": 41,
            "memory": 150,
        },
    }

    versions: ClassVar[Mapping[str, int]] = {
        "network=transformer-xl": 2,  # positions with the original's rates, 10000^(-2i/width), not tensor2tensor's
        "weight_dropout": 2,  # masks from 16 random bits per entry, instead of a random float
    }
    needs = (
        ("network=lstm|awd-lstm", "vector_range", "maps", "input_dropout", "output_dropout"),
        ("network=lstm|awd-lstm", "word_dropout", "weight_dropout"),
    )

    network: Annotated[str, Registered(networks("lm"))] = "lstm"
    """awd-lstm is the LSTM with output biases and all dropouts of Merity et al. (2018); hf is a network of Hugging
    Face's transformers, read from `path` or with fresh weights.
    """
    family: Literal["llama", "qwen3", "gpt2"] = "llama"
    """hf without `path`: kind of network, with width, inner, layers and heads."""
    preset: Annotated[
        Literal[
            "tiny",
            "small",
            "awd-lstm-ptb",
            "lstm-wikitext-103",
            "transformer-xl-wikitext-103",
            "llama-1m",
            "llama-3m",
            "llama-9m",
            "llama-60m",
            "gpt2-tiny",
        ],
        Unhashed(),
    ] = "tiny"
    """Sets the sizes and, except tiny and small, the network. Three are the papers'; the Llamas have so many parameters
    in their blocks, llama-60m in all, as GaLore's. Explicit keys override it.
    """
    width: int = Field(128, ge=2)
    """Width m of the last outputs and of the word vectors."""
    layers: int = Field(2, ge=1, le=MOST_LAYERS)
    """Number of LSTMs (the last has width m), or of Transformer-XL blocks."""
    hidden: int = Field(192, ge=1)
    """LSTM: width of all LSTMs except the last."""
    maps: Literal["gate", "stacked"] = "gate"
    """LSTM: one weight matrix per gate and input, or one for all gates."""
    inner: int = Field(256, ge=1)
    """Transformer-XL: width inside the feed-forward networks."""
    heads: int = Field(4, ge=1)
    """Transformer-XL: attention heads."""
    head_width: int = Field(32, ge=1)
    """Transformer-XL: width of a head's queries, keys and values."""
    memory: int = Field(48, ge=0)
    """Transformer-XL: number of words before the segment in attention."""
    tie: bool = True
    """Share the word vectors with the output layer."""
    vector_range: float | None = Field(None, gt=0)
    """LSTM: word vectors start uniform in ± this; null: the embedding's own start."""
    output_bias: bool = False
    """Biases in the output layer."""
    dropout: Share = 0.1
    """Dropout between LSTMs; in the Transformer-XL, everywhere except on attention weights."""
    input_dropout: Share = 0.1
    """LSTM: dropout of the first LSTM's inputs."""
    output_dropout: Share = 0.1
    """LSTM: dropout of the last LSTM's outputs."""
    word_dropout: Share = 0.0
    """LSTM: share of the vocabulary whose whole vectors are dropped."""
    weight_dropout: Share = 0.0
    """LSTM: share of recurrent weights dropped."""
    attention_dropout: Share = 0.0
    """Transformer-XL: share of attention weights dropped."""


class StreamBatchConfig(BatchConfig):
    """Text of a micro-batch."""

    unit: Literal["streams"] = "streams"  # type: ignore[assignment]
    """Unit of `size`."""
    size: int = Field(20, ge=1)
    """Number of streams of text read in parallel."""
    length: int = Field(70, ge=1)
    """Words of each stream per micro-batch; gradients flow back as far."""
    random_length: bool = False
    """Vary the length around `length`, and the learning rate with it (Merity et al. 2018, section 5)."""


class LanguageTrainingConfig(TrainingConfig):
    """Length, optimization, validation and checkpoints of a training run."""

    label_smoothing: float = Field(0.0, ge=0, le=0)
    """Always 0: perplexity is of unsmoothed words."""
    activation_penalty: float = Field(0.0, ge=0)
    """α: weight of the mean square of the last LSTM's outputs, after dropout (AR)."""
    change_penalty: float = Field(0.0, ge=0)
    """β: weight of the mean squared change of these outputs between words, before dropout (TAR)."""


class LanguageDecodingConfig(Section):
    """Scoring and continuation of text."""

    streams: int = Field(10, ge=1)
    """Scoring: number of equal parts of a text, read in parallel, each from an empty state."""
    length: int | None = Field(None, ge=1)
    """Scoring: words read at a time; null: batch.length."""
    memory: int | None = Field(None, ge=0)
    """Transformer-XL: words before the segment in attention; null: model.memory."""
    clamp_len: int | None = Field(None, ge=1)
    """Transformer-XL scoring: distances above this many words are clamped to it."""
    same_length: bool = False
    """Transformer-XL scoring: each word attends to the nearest `memory` words, itself included, instead of the whole
    memory and its own segment.
    """
    characters: Annotated[bool, Unhashed()] = False
    """Scoring: also report bits per character."""
    codebooks: int = Field(0, ge=0)
    """Scoring: codebooks of compressed input vectors, sums of one codeword from each; 0: uncompressed."""
    codewords: int = Field(16, ge=2)
    """Codewords in each of the `codebooks`."""
    code_steps: int = Field(0, ge=0)
    """Gradient steps of a network that learns the codes (Shu and Nakayama 2018: 200,000)."""
    batch: Annotated[int, Unhashed()] = Field(100, ge=1)
    """Scoring: maximum number of parts read at a time."""
    mode: Annotated[Literal["continue", "surprisal"], Unhashed()] = "continue"
    """predict: continuations of each line, or the surprisal of its words in bits."""
    words: Annotated[int, Unhashed()] = Field(50, ge=1)
    """predict: maximum number of words of a continuation."""
    choice: Annotated[Literal["greedy", "sample"], Unhashed()] = "greedy"
    """predict: the most probable word each time, or a sampled one."""
    temperature: Annotated[float, Unhashed()] = Field(1.0, gt=0)
    """sample: divisor of the log-probabilities; below 1 favors probable words."""
    seed: Annotated[int, Unhashed()] = Field(1, ge=0, lt=2**32)
    """sample: seed of the first line; further lines add 1 each."""


class LanguageModelExperiment(Experiment):
    """Configuration of the task lm."""

    task: Literal["lm"] = "lm"
    """Language modeling."""
    data: StreamDataConfig = StreamDataConfig()
    """Running text and its words."""
    model: LanguageModelOptions = LanguageModelOptions()
    """Shape of the network."""
    batch: StreamBatchConfig = StreamBatchConfig()
    """Text of a micro-batch."""
    training: LanguageTrainingConfig = LanguageTrainingConfig()
    """Length, optimization, validation, checkpoints."""
    decoding: LanguageDecodingConfig = LanguageDecodingConfig()
    """Scores and continuations."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of vocabulary entries, padded, as a tuple of length 1.

        It is as configured, else that of the corpus (10,000 if unknown).
        """
        vocabulary = self.data.vocabulary
        if self.model.path is not None:
            from phmrun.models.model_folder import read_settings  # brings transformers with it

            return (read_settings(self.model.path).vocab_size,)
        usual = BPE if vocabulary.kind == "bpe" else ENTRIES.get(self.data.name, ENTRIES["ptb"])
        size = vocabulary.size or usual
        return (-(-size // vocabulary.multiple_of) * vocabulary.multiple_of,)

    @property
    def evaluation_length(self) -> int:
        """Words read at a time in scoring: ``decoding.length``, else ``batch.length``."""
        return self.decoding.length or self.batch.length

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check the monitored score, and what networks other than LSTMs lack.

        Raises:
            ValueError: The monitored score is not the loss, a network of transformers has penalties or codebooks, or
                codebooks have no steps.
        """
        self.training.require_monitor(self.task, "loss")
        lacking = self.training.activation_penalty or self.training.change_penalty or self.decoding.codebooks
        if self.model.network == "hf" and lacking:
            raise ValueError("model.network=hf has no penalty of activation or change, and no codebooks: set them to 0")
        if self.decoding.codebooks and not self.decoding.code_steps:
            raise ValueError("decoding.codebooks needs decoding.code_steps, such as 200000")
        return self
