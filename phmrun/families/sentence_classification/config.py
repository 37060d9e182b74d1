"""Configuration of tasks that classify sentences or sentence pairs."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from phmrun.config.experiment import Experiment
from phmrun.config.sections import SplitFilesConfig
from phmrun.config.training import ClassTrainingConfig
from phmrun.section import Section


class WordsConfig(Section):
    """Splitting of sentences into words, and the vocabulary."""

    needs = (("kind=word", "min_frequency", "lowercase", "splitting"),)

    kind: Literal["word", "bpe"] = "word"
    """word: words of the training text; bpe: byte-level BPE learned from it, for text as it is. With model.path, the
    model's tokens count.
    """
    size: int = Field(20_000, ge=8)
    """Most entries of the vocabulary, special tokens included."""
    min_frequency: int = Field(1, ge=1)
    """Words that are rarer in the training data are unknown."""
    lowercase: bool = False
    """Drop case."""
    splitting: Literal["space", "punctuation"] = "space"
    """Words stand between white space (text that is tokenised), or marks and clitics are words, too."""
    multiple_of: int = Field(8, ge=1)
    """Unused entries fill the vocabulary up to a multiple of this, so that n divides it."""


class ClassificationDataConfig(SplitFilesConfig):
    """Labeled sentences and their words."""

    reduced: bool = False
    """A reduced setting: learn from the dataset's validation file, without what also occurs in a test file, and hold
    part of it out; for where its training file is not at hand. Scores say so.
    """
    vocabulary: WordsConfig = WordsConfig()
    """How sentences become words."""
    max_length: int = Field(256, ge=1)
    """Training items with a sentence of more words are left out."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check that ``reduced`` is used with a dataset and without ``hold_out``.

        Raises:
            ValueError: It is not.
        """
        if self.reduced and self.name in ("builtin", "files"):
            raise ValueError(f"reduced is for datasets, not for name={self.name}")
        if self.reduced and self.hold_out:
            raise ValueError("reduced holds out its own share of the validation file; leave hold_out away")
        return self


class ClassificationExperiment(Experiment):
    """Base configuration of classification tasks.

    A task restricts ``task`` to its name.
    """

    data: ClassificationDataConfig = ClassificationDataConfig()
    """Labelled sentences and their words."""
    training: ClassTrainingConfig = ClassTrainingConfig()
    """Length, optimisation, validation, checkpoints."""

    prompt: ClassVar[str] = "one sentence a line"
    """Description of an input line of the predictor."""
    names: ClassVar[tuple[str, ...]] = ("sentence",)
    """Names of the sentences of an item, which are separated by tabs."""

    @property
    def labels(self) -> tuple[str, ...]:
        """Classes in the order of their indices. Tasks override it.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """Size of the vocabulary and number of classes.

        The vocabulary's is that of the model's folder, else that requested, rounded up to ``multiple_of``.
        """
        words = self.data.vocabulary
        if (path := getattr(self.model, "path", None)) is not None:
            from phmrun.models.model_folder import read_settings  # brings transformers with it

            return read_settings(path).vocab_size, len(self.labels)
        return -(-words.size // words.multiple_of) * words.multiple_of, len(self.labels)

    @model_validator(mode="after")
    def _watched(self) -> Self:
        """Check that ``monitor`` is "loss" or "accuracy".

        Raises:
            ValueError: It is another score.
        """
        self.training.require_monitor(self.task, "loss", "accuracy")
        return self
