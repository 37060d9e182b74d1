"""Configuration of dependency parsing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from phmrun.config import DataConfig, Experiment, LayerConfig, ModelConfig, Section, Unhashed
from phmrun.config.names import Registered
from phmrun.config.sections import MOST_LAYERS, FilePath
from phmrun.registry import networks
from phmrun.section import Formerly
from phmrun.shares import share_of

SPLITS = ("train", "dev")  # splits of a dataset that may be used for training
TAGS, CHARACTERS, LABELS = 20, 200, 37
"""Default numbers of tags, characters and labels without a treebank; there are 37 universal labels."""

_SIZES = (
    *("word_width", "tag_width", "character_width", "character_hidden"),
    *("hidden", "layers", "arc_width", "label_width"),
)
Share = Annotated[float, Field(ge=0, lt=1)]


def _listed(value: Any) -> Any:
    """Split a text at commas; return other values unchanged."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class TreebankVocabularyConfig(Section):
    """Vocabulary of a treebank: words, characters, tags, labels."""

    size: int = Field(20_000, ge=8)
    """Maximum number of rows of the word table, special ones included."""
    min_frequency: int = Field(2, ge=1)
    """Minimum count in the training data; rarer words share the vector of the unknown word."""
    min_frequency_for: Literal["words", "all"] = "words"
    """What min_frequency applies to: words; or also tags, labels and characters, counted in distinct words, as in
    Parser-v2.
    """
    lowercase: bool = True
    """Look up word vectors in lower case."""
    lowercase_characters: bool = False
    """Read characters in lower case, too."""
    characters: Annotated[int, Formerly("letters")] = Field(32, ge=1)
    """Maximum number of characters read of a word, from its beginning."""
    tags: Literal["upos", "xpos", "both"] = "upos"
    """Universal tags, the treebank's own, or the sum of the vectors of both."""
    subtypes: bool = True
    """Learn labels with their subtypes (nmod:poss)."""
    multiple_of: int = Field(8, ge=1)
    """The tables are padded to a multiple of this, so that n divides their sizes."""


class TreebankDataConfig(DataConfig):
    """Training, validation and test trees."""

    files = ("train", "dev", "test")

    train: Annotated[tuple[str, ...], BeforeValidator(_listed), Unhashed()] = Field(("train",), min_length=1)
    """Training trees: CoNLL-U files, plain or .gz; for a dataset its splits, train or train,dev."""
    dev: FilePath = None
    """Validation trees, a CoNLL-U file."""
    test: FilePath = None
    """Test trees."""
    train_fraction: str = "1"
    """Share of the training sentences to use, such as 1/4, after hold_out. Drawn at random with a fixed seed; a smaller
    share is part of a larger one.
    """
    max_length: int = Field(512, ge=1)
    """Maximum number of words of a training sentence; longer ones are left out."""
    vocabulary: TreebankVocabularyConfig = TreebankVocabularyConfig()
    """Vocabulary of words, tags and labels."""

    @classmethod
    def names_files(cls, values: Mapping[str, Any]) -> bool:
        """Return True if ``dev``, ``test``, or an entry of ``train`` that is no split is set."""
        trees = _listed(values.get("train"))
        names = trees if isinstance(trees, list | tuple) else ()
        return bool(values.get("dev") or values.get("test")) or any(part not in SPLITS for part in names)

    def testing(self, *paths: Path) -> Self:
        """Return a copy with the user's own trees as test set.

        It has no training data.
        """
        return super().testing(*paths).model_copy(update={"train": ()})

    @field_validator("train_fraction", mode="before")
    @classmethod
    def _as_a_fraction(cls, value: Any) -> str:
        """Return a share as the text of a fraction: "1/4".

        Raises:
            ValueError: It is not above 0 and at most 1.
        """
        share = share_of(value)
        if share is None:
            raise ValueError("must be a fraction such as 1/4, more than 0 and at most 1")
        return str(share)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that files, splits and held-out sentences fit together.

        Raises:
            ValueError: Own files lack training or validation trees, or have validation trees beside ``hold_out``. Files
                are set for a dataset. ``train`` names no split, or takes "dev" without ``hold_out``.
        """
        if self.name == "files":
            self.check_validation([key for key in ("train", "dev") if getattr(self, key) not in (None, ("train",))])
            return self
        extra = [key for key in ("dev", "test") if getattr(self, key) is not None]
        if extra:
            raise ValueError(f"{', '.join(extra)} needs name=files, not name={self.name}")
        if other := [part for part in self.train if part not in SPLITS]:
            raise ValueError(f"train={','.join(other)} is not a training split; valid: train, dev")
        if "dev" in self.train and not self.hold_out:
            raise ValueError("train=dev leaves nothing to validate on; set hold_out, such as 0.1")
        return self


class ParserOptions(ModelConfig):
    """Shape of the network; the sizes are those of the deep biaffine parser."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {
            **dict(zip(_SIZES, (100, 100, 100, 200, 200, 3, 400, 100), strict=True)),
            **{"cell": "parser-v2", "character_pooling": "attention-cell", "start": "parser-v2"},
        },
        "small": {**dict(zip(_SIZES, (64, 32, 32, 64, 96, 2, 128, 64), strict=True)), "cell": "parser-v2"},
    }
    # 2: masks from 16 random bits an entry, instead of a random number.
    versions: ClassVar[Mapping[str, int]] = {"weight_dropout": 2}
    needs = (("cell=parser-v2", "direction_masks"), ("start=parser-v2", "tag_start", "word_start"))

    network: Annotated[str, Registered(networks("parse"))] = "biaffine"
    """Network from words, tags and characters to scores of arcs and labels."""
    preset: Annotated[Literal["paper", "small"], Unhashed()] = "paper"
    """Sets all sizes; paper: those of Matsuno et al. Explicit keys override it."""
    word_width: int = Field(100, ge=1)
    """Size of a word vector, to which the characters' vector is added."""
    tag_width: int = Field(100, ge=1)
    """Size of a tag vector, concatenated to the word's."""
    character_width: Annotated[int, Formerly("letter_width")] = Field(200, ge=1)
    """Size of a character vector."""
    character_hidden: Annotated[int, Formerly("letter_hidden")] = Field(200, ge=1)
    """Hidden size of the LSTM over the characters of a word."""
    character_pooling: Annotated[Literal["last", "attention", "attention-cell"], Formerly("letter_pooling")] = "last"
    """Pooling of that LSTM's outputs: the last one; the last one and an attention-weighted mean; or the last cell
    vector and that mean, as in Parser-v2.
    """
    hidden: int = Field(200, ge=1)
    """Hidden size of each direction of the LSTM over words."""
    layers: int = Field(3, ge=1, le=MOST_LAYERS)
    """Layers of the LSTM over words."""
    arc_width: int = Field(400, ge=1)
    """Size of the arc classifier's inputs."""
    label_width: int = Field(100, ge=1)
    """Size of the label classifier's inputs."""
    # The default keeps the ids of runs before 0.2; every preset sets "parser-v2".
    cell: Literal["parser-v2", "plain", "coupled"] = "coupled"
    """LSTM cells: parser-v2 (gates σ(2·), one bias each, a learned first state), or plain as in torch. coupled was in
    no released parser; it is kept for runs before 0.2.
    """
    start: Literal["usual", "parser-v2"] = "usual"
    """Initialization: usual for each layer, or as in Parser-v2 (classifiers, tags and characters' map at 0, characters
    of variance 1, MLPs orthonormal; classifiers with variant=released as Matsuno et al. released them).
    """
    tag_start: Literal["zero", "drawn"] = "zero"
    """Start of the tags' vectors with start=parser-v2: at 0, or drawn like those of words."""
    word_start: Literal["zero", "drawn"] = "drawn"
    """Start of the words' learned vectors with start=parser-v2: at 0, as in Parser-v2, or drawn."""
    fixed_width: int = Field(0, ge=0)
    """Size of a fixed vector of each training word, rare ones included, drawn uniformly. A learned map of it is added
    to the word's own vector, as Parser-v2 adds one of pretrained vectors. 0: none.
    """
    dropout: Share = 0.33
    """Dropout before LSTM layers, MLPs and classifiers, with one mask per sentence."""
    recurrent_dropout: Share = 0.33
    """Dropout of the LSTMs' hidden vectors, with one mask per sentence; for cells other than parser-v2, dropout of the
    entries of the recurrent matrices.
    """
    embedding_dropout: Share = 0.33
    """Share of words read without their word vector, and share read without their tag vector."""
    direction_masks: bool = False
    """Dropout of the LSTM's inputs has a mask for each direction, as in Parser-v2; otherwise both share one. Only for
    cell=parser-v2.
    """
    vector_std: float | None = Field(None, gt=0)
    """Initial standard deviation of word, tag and character vectors; null: 1/√width."""
    word_dropout: Share = 0.0
    """Share of words whose own vector is replaced by the unknown word's; their characters stay."""

    @property
    def weight_dropout(self) -> float:
        """Share of the entries of recurrent matrices dropped.

        0 for cells of Parser-v2, which drop hidden vectors instead.
        """
        return 0.0 if self.cell == "parser-v2" else self.recurrent_dropout


class TreeDecodingConfig(Section):
    """Search for trees, and their scoring."""

    tree: Literal["mst", "greedy"] = "mst"
    """mst: best tree with a single root; greedy: best head of each word, possibly no tree."""
    subtypes: bool = False
    """LAS requires the label's subtype, too."""
    punctuation: bool = True
    """Score punctuation, too."""
    batch: Annotated[int, Unhashed()] = Field(64, ge=1)
    """Sentences parsed at a time."""


class ParsingExperiment(Experiment):
    """Configuration of the task parse."""

    task: Literal["parse"] = "parse"
    """Dependency parsing."""
    data: TreebankDataConfig = TreebankDataConfig()
    """Trees and their words."""
    layer: LayerConfig = LayerConfig()
    """Structure of the maps of LSTMs and MLPs."""
    output: LayerConfig = LayerConfig()
    """Structure of the bilinear forms of both classifiers: also circulant or symmetric."""
    model: ParserOptions = ParserOptions()
    """Shape of the parser."""
    decoding: TreeDecodingConfig = TreeDecodingConfig()
    """From scores of arcs to trees."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of the three tables, padded, and number of labels.

        Words are as configured; tags, characters and labels have default numbers.
        """
        vocabulary = self.data.vocabulary
        tables = (vocabulary.size, TAGS, CHARACTERS)
        return (*(-(-size // vocabulary.multiple_of) * vocabulary.multiple_of for size in tables), LABELS)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the monitored score is loss, uas or las.

        Raises:
            ValueError: It is another one.
        """
        self.training.require_monitor(self.task, "loss", "uas", "las")
        return self
