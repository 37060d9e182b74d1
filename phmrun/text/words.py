"""Word vocabularies: tokens are what stands between white space.

Meant for text that is tokenised already, as the papers' word-level corpora are. Raw text works too, but then a word and
the same word with a comma are two entries; subwords are the better choice there. ``decode`` joins with single spaces.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, Self

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.vocabulary import SPECIALS, UNK, Vocabulary, padded_size, without_specials

Splitting = Literal["space", "punctuation"]
_WORD = re.compile(r"\w+(?=n't\b)|n't\b|'(?:s|re|ve|ll|d|m)\b|\d+(?:[.,]\d+)*|\w+(?:-\w+)*|[^\w\s]", re.IGNORECASE)


class WordVocabulary(Vocabulary):
    """A list of words in the order of their ids; line k of ``words.txt`` holds the word of id k - 1.

    Args:
        words: All entries by id; the first four are the special ones.
        size: Rows that an embedding needs, at least the number of words.
        requested: The size that was asked for.
    """

    kinds = ("word",)
    model_file = "words.txt"

    def __init__(self, words: Sequence[str], *, size: int, requested: int) -> None:
        super().__init__("word", words, size=size, requested=requested)
        # A special's spelling in running text is no special: "</s>" as a word must not end a sentence.
        self._ids = {word: index for index, word in enumerate(words) if index >= len(SPECIALS)}

    def encode(self, text: str) -> list[int]:
        """The ids of the words of one line, with neither a beginning nor an end."""
        ids = self._ids
        return [ids.get(word, UNK) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """The words joined with spaces: stops at the end id, skips padding, the beginning and unused ids."""
        return " ".join(self.tokens[token] for token in without_specials(ids, self.entries))

    def content(self) -> bytes:
        """The words, one a line."""
        return "".join(f"{word}\n" for word in self.tokens).encode()

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """The vocabulary of a list of words."""
        words = content.decode().split("\n")[:-1]
        return cls(words, size=description["size"], requested=description["requested"])


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
