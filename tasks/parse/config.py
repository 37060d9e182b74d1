"""The configuration of dependency parsing."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from phmrun.config import DataConfig, Experiment, FilePath, Formerly, LayerConfig, ModelConfig, Section, Unhashed
from phmrun.config.sections import MOST_LAYERS
from phmrun.shares import share_of

SPLITS = ("train", "dev")  # splits of a dataset that may be learnt from
TAGS, CHARACTERS, LABELS = 20, 200, 37
"""Tags, characters and labels of a treebank where none is at hand; there are 37 universal labels."""

_SIZES = (
    *("word_width", "tag_width", "character_width", "character_hidden"),
    *("hidden", "layers", "arc_width", "label_width"),
)
Share = Annotated[float, Field(ge=0, lt=1)]


def _listed(value: Any) -> Any:
    """The parts of a text with commas; anything else as it is."""
    return [part.strip() for part in value.split(",")] if isinstance(value, str) else value


class TreebankVocabularyConfig(Section):
    """How words, their characters and tags, and the labels of arcs become numbers."""

    size: int = Field(20_000, ge=8, description="Most rows of the word table, special ones included.")
    min_frequency: int = Field(
        2, ge=1, description="Words that are rarer in the training data share the vector of the unknown word."
    )
    lowercase: bool = Field(True, description="Word vectors are those of words in lower case; characters keep theirs.")
    characters: Annotated[int, Formerly("letters")] = Field(
        32, ge=1, description="Characters of a word that are read at most, from its beginning."
    )
    tags: Literal["upos", "xpos"] = Field("upos", description="Universal tags, or the treebank's own.")
    subtypes: bool = Field(True, description="Labels are learnt with their subtypes (nmod:poss), or without.")
    multiple_of: int = Field(
        8, ge=1, description="Unused rows fill the tables up to a multiple of this, so that n divides their sizes."
    )


class TreebankDataConfig(DataConfig):
    """Which trees are learnt from, and which of them are held out."""

    files = ("train", "dev", "test")

    train: Annotated[tuple[str, ...], Unhashed()] = Field(
        ("train",),
        min_length=1,
        description="What is learnt from: CoNLL-U files, plain or .gz; of a dataset its splits, train or train,dev.",
    )
    dev: FilePath = Field(None, description="Validation trees, a CoNLL-U file.")
    test: FilePath = Field(None, description="Test trees.")
    train_fraction: str = Field(
        "1",
        description="Share of the training sentences that is learnt from, such as 1/4; drawn at random, always the "
        "same, a smaller share being part of a larger one. What is held out is taken before.",
    )
    max_length: int = Field(512, ge=1, description="Training sentences with more words are left out.")
    vocabulary: TreebankVocabularyConfig = Field(
        TreebankVocabularyConfig(), description="How words, tags and labels become numbers."
    )

    @model_validator(mode="before")
    @classmethod
    def _files_imply_their_name(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "name" in value:
            return value
        trees = _listed(value.get("train") or ())
        own = value.get("dev") or value.get("test") or any(part not in SPLITS for part in trees)
        return {**value, "name": "files"} if own else value

    def testing(self, *paths: Path) -> Self:
        """The section with the user's own trees as the test set and nothing to learn from."""
        return super().testing(*paths).model_copy(update={"train": ()})

    @field_validator("train", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return _listed(value)

    @field_validator("train_fraction", mode="before")
    @classmethod
    def _as_a_fraction(cls, value: Any) -> str:
        share = share_of(value)
        if share is None:
            raise ValueError("must be a fraction such as 1/4, more than 0 and at most 1")
        return str(share)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.name == "files":
            self.check_validation([key for key in ("train", "dev") if getattr(self, key)])
            return self
        given = [key for key in ("dev", "test") if getattr(self, key) is not None]
        if given:
            raise ValueError(f"{', '.join(given)} needs name=files, not name={self.name}")
        if other := [part for part in self.train if part not in SPLITS]:
            raise ValueError(f"train={','.join(other)} is no split of a dataset to learn from; valid: train, dev")
        if "dev" in self.train and not self.hold_out:
            raise ValueError("train=dev leaves nothing to validate on; set hold_out, such as 0.1")
        return self


class ParserOptions(ModelConfig):
    """Shape of the deep biaffine parser."""

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "paper": {
            **dict(zip(_SIZES, (100, 100, 100, 200, 200, 3, 400, 100), strict=True)),
            **{"cell": "parser-v2", "character_pooling": "attention-cell", "start": "parser-v2"},
        },
        "small": {**dict(zip(_SIZES, (64, 32, 32, 64, 96, 2, 128, 64), strict=True)), "cell": "parser-v2"},
    }
    # 2: masks from 16 random bits an entry, instead of a random number.
    versions: ClassVar[Mapping[str, int]] = {"weight_dropout": 2}

    preset: Annotated[Literal["paper", "small"], Unhashed()] = Field(
        "paper", description="Sets all sizes and layers, paper to those of Matsuno et al.; keys beside it override it."
    )
    word_width: int = Field(100, ge=1, description="Size of a word vector; that of the characters is added to it.")
    tag_width: int = Field(100, ge=1, description="Size of a tag vector, which stands beside it.")
    character_width: Annotated[int, Formerly("letter_width")] = Field(
        200, ge=1, description="Size of a character vector."
    )
    character_hidden: Annotated[int, Formerly("letter_hidden")] = Field(
        200, ge=1, description="Hidden size of the LSTM over the characters of a word."
    )
    character_pooling: Annotated[Literal["last", "attention", "attention-cell"], Formerly("letter_pooling")] = Field(
        "last",
        description="Of that LSTM's outputs: the last, mapped; the last beside a mean weighted by linear attention; or "
        "the last cell vector beside that mean, as in Parser-v2.",
    )
    hidden: int = Field(200, ge=1, description="Hidden size of each direction of the LSTM over words.")
    layers: int = Field(3, ge=1, le=MOST_LAYERS, description="Layers of the LSTM over words.")
    arc_width: int = Field(400, ge=1, description="Size of what the arc classifier reads of a word.")
    label_width: int = Field(100, ge=1, description="Size of what the label classifier reads of a word.")
    # The schema's default is that of runs before 0.2, whose ids it keeps; every preset sets "parser-v2".
    cell: Literal["parser-v2", "plain", "coupled"] = Field(
        "coupled",
        description="LSTM cells: of Parser-v2 (gates σ(2·), one bias each, a learnt first state), or of torch; coupled "
        "ones are of no released parser, and only there to read and continue runs of before.",
    )
    start: Literal["usual", "parser-v2"] = Field(
        "usual",
        description="Weights at the start: as each layer's, or Parser-v2's (classifiers, tags and the characters' map "
        "at 0, characters of variance 1, MLPs orthonormal).",
    )
    dropout: Share = Field(
        0.33, description="Share of numbers dropped before LSTM layers, MLPs and classifiers, per sentence."
    )
    recurrent_dropout: Share = Field(
        0.33,
        description="Share of the LSTMs' hidden vectors dropped, the same at all steps of a sentence; of cells other "
        "than parser-v2, of the entries of their recurrent matrices.",
    )
    embedding_dropout: Share = Field(
        0.33, description="Share of words read without their word vector, and share without their tag's."
    )
    vector_std: float | None = Field(
        None,
        gt=0,
        description="Standard deviation with which vectors of words, tags and characters begin (default: 1/√width).",
    )
    word_dropout: Share = Field(
        0.0, description="Share of words whose own vector is that of the unknown word; their characters stay."
    )

    @property
    def weight_dropout(self) -> float:
        """Share of the entries of recurrent matrices dropped; 0 for cells of Parser-v2, which drop hidden vectors."""
        return 0.0 if self.cell == "parser-v2" else self.recurrent_dropout


class TreeDecodingConfig(Section):
    """How trees are found for the scores of arcs, and how they are scored."""

    tree: Literal["mst", "greedy"] = Field(
        "mst", description="The best tree with a single root, or each word's best head, which may make no tree."
    )
    subtypes: bool = Field(False, description="LAS asks for the label's subtype, too.")
    punctuation: bool = Field(True, description="Words that consist of punctuation count.")
    input: Annotated[Literal["auto", "conllu", "text"], Unhashed()] = Field(
        "auto", description="What predict reads: CoNLL-U, or a sentence a line with spaces between words; auto looks."
    )
    batch: Annotated[int, Unhashed()] = Field(64, ge=1, description="Sentences parsed at a time.")


class ParsingExperiment(Experiment):
    """Configuration of the task parse."""

    task: Literal["parse"] = Field("parse", description="Dependency parsing.")
    data: TreebankDataConfig = Field(TreebankDataConfig(), description="Trees and their words.")
    layer: LayerConfig = Field(LayerConfig(), description="Structure of the maps of LSTMs and MLPs.")
    output: LayerConfig = Field(
        LayerConfig(), description="Structure of the bilinear forms of both classifiers: also circulant or symmetric."
    )
    model: ParserOptions = Field(ParserOptions(), description="Shape of the parser.")
    decoding: TreeDecodingConfig = Field(TreeDecodingConfig(), description="From scores of arcs to trees.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Rows of words, as many as are asked for, and of tags and characters, and labels, as many as are usual."""
        vocabulary = self.data.vocabulary
        tables = (vocabulary.size, TAGS, CHARACTERS)
        return (*(-(-size // vocabulary.multiple_of) * vocabulary.multiple_of for size in tables), LABELS)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.training.monitor not in ("loss", "uas", "las"):
            raise ValueError(
                f"training.monitor={self.training.monitor} is not among the scores of parse: loss, uas, las"
            )
        return self
