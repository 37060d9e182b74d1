"""Vocabulary of words and labels of sentence classifiers."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

from phmrun.documents import parse_json
from phmrun.files import intact, read_text, write_json
from phmrun.text.tokenizer import TokenizerVocabulary
from phmrun.text.vocabulary import Splitting, Vocabulary, WordVocabulary, read_description, spaced


class ClassificationVocabulary:
    """Vocabulary of words, or of a tokenizer's tokens, and, in the order of their indices, classes.

    Sentences are lowercased and split as in :class:`~phmrun.families.sentence_classification.config.WordsConfig`; a
    tokenizer reads them as they are.
    """

    def __init__(
        self, words: Vocabulary, labels: Sequence[str], *, lowercase: bool = False, splitting: Splitting = "space"
    ) -> None:
        self.words = words
        self.labels = tuple(labels)
        self.lowercase = lowercase
        self.splitting: Splitting = splitting

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of an embedding, and number of classes."""
        return len(self.words), len(self.labels)

    def encode(self, sentence: str) -> list[int]:
        """Return the ids of a sentence's words, without beginning and end tokens."""
        if isinstance(self.words, TokenizerVocabulary):
            return self.words.encode(sentence)
        return self.words.encode(spaced(sentence, self.lowercase, self.splitting))

    def save(self, directory: Path) -> None:
        """Write ``words/`` and ``labels.json`` to ``directory``."""
        self.words.save(directory / "words")
        description = {"labels": list(self.labels), "lowercase": self.lowercase, "splitting": self.splitting}
        write_json(directory / "labels.json", description)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Load a vocabulary written by :meth:`save`.

        Raises:
            PhmrunError: (exit 3) The vocabulary is missing or damaged.
        """
        path = directory / "labels.json"
        with intact("the vocabulary is", path):
            stored = parse_json(read_text(path))
            labels, lowercase, splitting = stored["labels"], stored["lowercase"], stored["splitting"]
        kind = read_description(directory / "words", (*WordVocabulary.kinds, *TokenizerVocabulary.kinds))["kind"]
        reader: type[Vocabulary] = TokenizerVocabulary if kind in TokenizerVocabulary.kinds else WordVocabulary
        return cls(reader.load(directory / "words"), labels, lowercase=lowercase, splitting=splitting)
