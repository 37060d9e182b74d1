"""Word vocabularies: tokens are what stands between white space.

Meant for text that is tokenised already, as the papers' word-level corpora are. Raw text works too, but then a word and
the same word with a comma are two entries; subwords are the better choice there. ``decode`` joins with single spaces.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import write_text
from phmrun.text.vocabulary import (
    SPECIALS,
    UNK,
    check_entries,
    content,
    padded_size,
    read_model,
    write_description,
)

MODEL = "words.txt"
Splitting = Literal["space", "punctuation"]
_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)


class WordVocabulary:
    """A list of words in the order of their ids.

    Args:
        words: All entries by id; the first four are the special ones.
        size: Rows that an embedding needs, at least the number of words.
        requested: The size that was asked for.
    """

    kind = "word"

    def __init__(self, words: Sequence[str], *, size: int, requested: int) -> None:
        self.requested = requested
        self.entries = len(words)
        self._size = size
        self._words = list(words)
        # A special's spelling in running text is no special: "</s>" as a word must not end a sentence.
        self._ids = {word: index for index, word in enumerate(words) if index >= len(SPECIALS)}

    @property
    def tokens(self) -> tuple[str, ...]:
        """The entries by id, the special ones first."""
        return self.words

    @property
    def words(self) -> tuple[str, ...]:
        """The entries by id, the special ones first."""
        return tuple(self._words)

    @property
    def sha256(self) -> str:
        """Checksum of the word list as it is saved."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def __len__(self) -> int:
        """Rows that an embedding needs, unused ones included."""
        return self._size

    def encode(self, text: str) -> list[int]:
        """The ids of the words of one line, with neither a beginning nor an end."""
        ids = self._ids
        return [ids.get(word, UNK) for word in text.split()]

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """:meth:`encode` for many lines."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """The words joined with spaces: stops at the end id, skips padding, the beginning and unused ids."""
        return " ".join(self._words[token] for token in content(ids, self.entries))

    def save(self, directory: Path) -> None:
        """Writes ``words.txt`` (line k holds the word of id k - 1) and ``vocabulary.json`` into ``directory``."""
        write_text(directory / MODEL, self._text())
        write_description(directory, self, MODEL)

    def _text(self) -> str:
        return "".join(f"{word}\n" for word in self._words)

    @classmethod
    def load(cls, directory: Path, description: dict[str, str | int]) -> "WordVocabulary":
        """Reads what :meth:`save` wrote; ``description`` is the content of ``vocabulary.json``.

        Raises:
            PhmrunError: (exit 3) The word list is missing or damaged.
        """
        try:
            words = read_model(directory, MODEL, description).decode("utf-8").split("\n")[:-1]
        except UnicodeDecodeError as error:
            what = f"the list of words is not UTF-8 text (byte {error.start})"
            raise PhmrunError(what, where=str(directory / MODEL), code=ExitCode.DATA) from error
        check_entries(directory, description, len(words))
        return cls(words, size=int(description["size"]), requested=int(description["requested"]))


def train_words(lines: Iterable[str], *, size: int, multiple_of: int = 1, min_frequency: int = 1) -> WordVocabulary:
    """The most frequent words of a text, equal counts in alphabetical order.

    Args:
        lines: The training text, read once; memory grows with the number of different words only.
        size: Most entries, the four special ones included.
        multiple_of: The size is padded to a multiple of this.
        min_frequency: Rarer words are unknown.

    Raises:
        PhmrunError: (exit 3) There is no text.
    """
    from torchtext.vocab import Vocab  # brings torch with it

    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    if not counts:
        raise PhmrunError("there is no text to learn a vocabulary from", code=ExitCode.DATA)
    vocab = Vocab(counts, max_size=size - len(SPECIALS), min_freq=min_frequency, specials=list(SPECIALS))
    return WordVocabulary(vocab.itos, size=padded_size(len(vocab.itos), multiple_of), requested=size)


def spaced(sentence: str, lowercase: bool, splitting: Splitting) -> str:
    """The words of a sentence with single spaces between them."""
    text = sentence.lower() if lowercase else sentence
    return " ".join(text.split() if splitting == "space" else _WORD.findall(text.replace("’", "'")))
