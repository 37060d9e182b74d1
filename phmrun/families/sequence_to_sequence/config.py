"""Configuration of sequence-to-sequence tasks: data, vocabularies, network and decoding."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from phmrun.config.experiment import Experiment
from phmrun.config.sections import DataConfig, FilePath
from phmrun.config.training import ClassTrainingConfig
from phmrun.models.options import TransformerOptions
from phmrun.section import Section, Unhashed
from phmrun.text.vocabulary import padded_size

_FILES = tuple(f"{split}_{side}" for split in ("train", "dev", "test") for side in ("source", "target"))

TOKENIZERS = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "jpn"), "ja-mecab"),
    **dict.fromkeys(("ko", "kor"), "ko-mecab"),
}
"""BLEU's tokenizer by target language, as sacreBLEU has it; 13a for all others."""
MOST_ENTRIES = 10_000_000
"""Largest size of a vocabulary; SentencePiece counts in 32 bits."""


class VocabularyConfig(Section):
    """Tokenization and vocabularies."""

    kind: Literal["unigram", "bpe", "word"] = "unigram"
    """SentencePiece unigrams or BPE, or words."""
    size: int = Field(2000, ge=8, le=MOST_ENTRIES)
    """Entries of a vocabulary, special tokens included."""
    target_size: int | None = Field(None, ge=8, le=MOST_ENTRIES)
    """Entries of the target's vocabulary where there are two; null: size."""
    joint: bool = True
    """One vocabulary for both languages; tied embeddings need it."""
    multiple_of: int = Field(8, ge=1)
    """Unused entries fill the vocabulary up to a multiple of this, so that n divides it."""
    path: Annotated[Path | None, Unhashed()] = None
    """A run's folder `vocabulary`, to be used as it is; nothing is learnt then."""


class ParallelDataConfig(DataConfig):
    """Sentence pairs, direction and vocabularies."""

    files = ("prefix", *_FILES)

    source: str = Field("en", min_length=1)
    """Language translated from."""
    target: str = Field("de", min_length=1)
    """Language translated into."""
    train_source: FilePath = None
    """Training sentences, one a line; UTF-8, plain or .gz."""
    train_target: FilePath = None
    """Their translations, line by line."""
    dev_source: FilePath = None
    """Validation sentences."""
    dev_target: FilePath = None
    """Their translations."""
    test_source: FilePath = None
    """Test sentences."""
    test_target: FilePath = None
    """Their translations."""
    prefix: Annotated[str | None, Unhashed()] = None
    """Instead of the six files: how their names start. corpus/ with source en and target de stands for corpus/train.en,
    corpus/train.de, corpus/dev.en (or val.en) …, each also with .gz. A file that is named takes the place of its one.
    """
    empty: Literal["refuse", "drop"] = "refuse"
    """What becomes of pairs with an empty side: an error that counts them, or they are left out."""
    vocabulary: VocabularyConfig = VocabularyConfig()
    """How text becomes tokens."""
    max_length: int = Field(256, ge=1)
    """Training pairs with more tokens than this on either side are left out."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that languages differ, and that files and ``name`` agree.

        Raises:
            ValueError: They do not: files or a prefix are set for another ``name``. Or with "files", without a prefix,
                a training or validation file is missing, or the test set has one side only.
        """
        named = [key for key in _FILES if getattr(self, key) is not None]
        if self.source == self.target:
            raise ValueError(f"source and target are the same language, {self.source!r}")
        if self.name != "files" and (named or self.prefix):
            raise ValueError(f"{', '.join(named or ['prefix'])} needs name=files, not name={self.name}")
        if self.name == "files" and not self.prefix:
            self.check_validation(named, ("train_source", "train_target", "dev_source", "dev_target"))
        if (self.test_source is None) != (self.test_target is None):
            raise ValueError("test_source and test_target belong together")
        return self

    def testing(self, *paths: Path) -> Self:
        """Return a copy with source and target files as its only data.

        They are the test set; ``paths`` are exactly these two. ``name`` becomes "files" and ``hold_out`` 0.
        """
        nothing = dict.fromkeys((*_FILES, "prefix"))
        source, target = paths
        nothing |= {"name": "files", "hold_out": 0.0}
        return self.model_copy(update={**nothing, "test_source": source, "test_target": target})


class DecodingConfig(Section):
    """Decoding settings of evaluation and prediction."""

    beam: int = Field(5, ge=1)
    """Hypotheses kept per sentence; 1 is greedy."""
    alpha: float = Field(0.6, ge=0)
    """Strength of the length penalty; 0: none."""
    penalty: Literal["gnmt", "power", "steps"] = "gnmt"
    """Divides log-probabilities: ((5 + length) / 6)^alpha, or length^alpha (CTranslate2); steps: divides probabilities
    by length^alpha at every step (PHM+).
    """
    engine: Literal["torch", "ctranslate2"] = "torch"
    """What searches: phmrun, or the library CTranslate2, which knows the penalty `power` only."""
    quantization: Literal["none", "int8", "int8_float32", "bfloat16", "float16"] = "none"
    """How CTranslate2 keeps the weights; none: 32 bits. With the engine torch, bfloat16 is that of maps and encoder."""
    max_length_ratio: float = Field(1.5, gt=0)
    """A translation has at most ratio · source tokens + offset tokens."""
    max_length_offset: int = Field(10, ge=1)
    """See `max_length_ratio`; tokens."""
    application: Literal["auto", "dense", "factored"] = "auto"
    """How the decoder applies structured maps: W built once, or its factors at every step; auto: up to 32 hypotheses
    (batch times beam) at a time by the factors of large maps (by-size).
    """
    kernels: Annotated[Literal["measured", "fixed"], Unhashed()] = "measured"
    """How predict applies dense maps on a CPU: by packed weights where these were measured to be faster, which may
    change the last digits from processor to processor; or as scores are always computed.
    """
    batch: Annotated[int, Unhashed()] = Field(64, ge=1)
    """Sentences translated at a time."""
    nbest: Annotated[int, Unhashed()] = Field(1, ge=1)
    """Hypotheses written per sentence, at most `beam`; a sentence with fewer different ones has fewer."""
    tokenizer: Literal["auto", "13a", "intl", "zh", "ja-mecab", "ko-mecab", "flores200", "char"] = "auto"
    """SacreBLEU's tokenizer for BLEU; auto: zh, ja-mecab or ko-mecab by the target language (zh, zh-TW, jpn_Jpan …),
    else 13a. Without its package, chrF is used in place of BLEU.
    """
    sentence_bleu: Annotated[bool, Unhashed()] = False
    """Also score the mean BLEU of single sentences, by sacreBLEU."""
    sentence_bleu_nltk: Annotated[bool, Unhashed()] = False
    """Also score the mean BLEU of single sentences as Demir and Barutçu's notebooks do, for their tables only: repeated
    words score high.
    """

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that the engine supports quantization and penalty, and that the beam holds ``nbest`` hypotheses.

        Raises:
            ValueError: Torch has another quantization than bfloat16, the penalty is "steps" for CTranslate2, or
                ``nbest`` exceeds ``beam``.
        """
        if self.nbest > self.beam:
            raise ValueError(f"nbest={self.nbest} is more than beam={self.beam}")
        if self.quantization not in ("none", "bfloat16") and self.engine == "torch":
            raise ValueError(f"quantization={self.quantization} needs engine=ctranslate2")
        if self.penalty == "steps" and self.engine != "torch":
            raise ValueError("penalty=steps needs engine=torch")
        return self


class SequenceToSequenceExperiment(Experiment):
    """Base configuration of sequence-to-sequence tasks.

    A task restricts ``task`` to its name.
    """

    data: ParallelDataConfig = ParallelDataConfig()
    """Sentence pairs and their tokens."""
    model: TransformerOptions = TransformerOptions()
    """Shape of the Transformer."""
    training: ClassTrainingConfig = ClassTrainingConfig()
    """Length, optimisation, validation, checkpoints."""
    decoding: DecodingConfig = DecodingConfig()
    """Search for outputs in the evaluation."""

    versions: ClassVar[Mapping[str, int]] = {f"tokenizer={name}": 2 for name in set(TOKENIZERS.values())}  # 13a before

    @property
    def tokenizer(self) -> str:
        """Name of BLEU's tokenizer: as configured, else by the target language."""
        if self.decoding.tokenizer != "auto":
            return self.decoding.tokenizer
        return TOKENIZERS.get(re.split("[-_.]", self.data.target.lower())[0], "13a")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Requested sizes of the source and target vocabularies, rounded up to ``multiple_of``.

        Without ``target_size``, both are ``size``.
        """
        vocabulary = self.data.vocabulary
        sizes = (vocabulary.size, vocabulary.target_size or vocabulary.size)
        return tuple(padded_size(size, vocabulary.multiple_of) for size in sizes)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check keys of several sections that depend on each other.

        Raises:
            ValueError: Tying or ``target_size`` does not fit a joint vocabulary or two, or ``monitor`` is no validation
                score.
        """
        tie = self.model.tie
        if tie in ("all", "embeddings") and not self.data.vocabulary.joint:
            what = f"model.tie={tie} needs data.vocabulary.joint=true; tie=decoder goes with two vocabularies"
            raise ValueError(what)
        if self.data.vocabulary.target_size is not None and self.data.vocabulary.joint:
            raise ValueError("data.vocabulary.target_size goes with two vocabularies, data.vocabulary.joint=false")
        self.training.require_monitor(self.task, "loss", "bleu")
        return self
