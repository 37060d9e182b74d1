"""Words and labels: what turns a sentence into numbers, and a number into the name of a class."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from phmrun.documents import parse_json
from phmrun.files import intact, write_json
from phmrun.text.vocabulary import Splitting, WordVocabulary, spaced


@dataclass(frozen=True)
class WordSettings:
    """How sentences become words, and which of these are known."""

    size: int = 20_000  # entries of the vocabulary
    min_frequency: int = 1  # words rarer than this in training are unknown
    lowercase: bool = False  # whether case is dropped
    # words stand between white space ("space"), or marks and clitics are words, too ("punctuation")
    splitting: Splitting = "space"
    multiple_of: int = 1  # the size is padded to a multiple of this


class ClassificationVocabulary:
    """The words of the sentences, split as :class:`WordSettings` says, and the classes in their order."""

    def __init__(
        self, words: WordVocabulary, labels: Sequence[str], *, lowercase: bool = False, splitting: Splitting = "space"
    ) -> None:
        self.words = words
        self.labels = tuple(labels)
        self.lowercase = lowercase
        self.splitting: Splitting = splitting

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of an embedding, and classes."""
        return len(self.words), len(self.labels)

    def encode(self, sentence: str) -> list[int]:
        """Ids of a sentence's words, with neither a beginning nor an end."""
        return self.words.encode(spaced(sentence, self.lowercase, self.splitting))

    def save(self, directory: Path) -> None:
        """Writes ``words/`` and ``labels.json`` into ``directory``."""
        self.words.save(directory / "words")
        description = {"labels": list(self.labels), "lowercase": self.lowercase, "splitting": self.splitting}
        write_json(directory / "labels.json", description)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The directory holds no such vocabulary, or a damaged one.
        """
        path = directory / "labels.json"
        with intact("the vocabulary is", path):
            stored = parse_json(path.read_text(encoding="utf-8"))
            labels, lowercase, splitting = stored["labels"], stored["lowercase"], stored["splitting"]
        return cls(WordVocabulary.load(directory / "words"), labels, lowercase=lowercase, splitting=splitting)
