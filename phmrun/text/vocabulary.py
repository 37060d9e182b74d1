"""Vocabulary: text to token ids and back, learned from text, saved in a directory; and that of words.

Id 0 is padding, 1 the unknown token, 2 the beginning and 3 the end of a sentence, except in vocabularies of running
text, which need none of these. On disk a vocabulary is ``vocabulary.json`` (kind, sizes, checksum) and one model
file. Nothing on disk is executable: no pickle.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from phmrun.documents import parse_json
from phmrun.errors import data_error
from phmrun.files import intact, read_regular, read_text, replacing, write_json

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
RESERVED = re.compile("|".join(map(re.escape, SPECIALS)))
"""Words that text cannot hold: they become unknown."""
RESERVED_BY_SUBWORDS = re.compile(f"[▅▁]|{RESERVED.pattern}")
"""The same for SentencePiece: it learns nothing from a line with ▅, and reads ▁ as a space."""
Kind = Literal["unigram", "bpe", "word"]
LARGEST = 1 << 31
"""More entries than any vocabulary has."""
DESCRIPTION = "vocabulary.json"
FORMAT = 1
"""Version of the layout on disk."""


class Vocabulary(ABC):
    """Map between text and token ids, saved as a model file with a description.

    Args:
        kind: Kind of vocabulary, one of the class's ``kinds``.
        tokens: The entries in use, by id, as they are written, special ones included; further ids are unused padding.
        size: Rows that an embedding needs, at least the entries.
        requested: Requested size, before it is reduced to what the data allow, and before padding.
    """

    kinds: ClassVar[tuple[str, ...]]
    model_file: ClassVar[str]
    unknown: int = UNK

    def __init__(self, kind: str, tokens: Iterable[str], *, size: int, requested: int) -> None:
        self.kind = kind
        self.tokens = list(tokens)
        self.entries = len(self.tokens)
        self.requested = requested
        self._size = size

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """Return the token ids of one line, without beginning and end tokens."""

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids up to the end token.

        Padding, beginning and unused ids are skipped.
        """

    @abstractmethod
    def content(self) -> bytes:
        """Return the content of the model file."""

    @classmethod
    @abstractmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """Build the vocabulary from a model file's content.

        Raises:
            ValueError, LookupError, TypeError: The content is damaged.
        """

    def __len__(self) -> int:
        """Number of embedding rows, unused ones included."""
        return self._size

    @property
    def sizes(self) -> tuple[int]:
        """Rows of the embedding, unused ones included, as a tuple of length 1."""
        return (len(self),)

    @property
    def sha256(self) -> str:
        """SHA-256 of the model file."""
        return hashlib.sha256(self.content()).hexdigest()

    @property
    def mark(self) -> str:
        """Checksum of the model file, and the size if there are unused rows."""
        return self.sha256 if len(self) == self.entries else f"{self.sha256} {len(self)}"

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many lines, in order.

        Here :meth:`encode` is called for each; subclasses may be faster.
        """
        return [self.encode(line) for line in lines]

    def description(self) -> dict[str, Any]:
        """Return the content of ``vocabulary.json`` without the checksum.

        Keys: format, kind, size, entries, requested.
        """
        sizes = {"size": len(self), "entries": self.entries, "requested": self.requested}
        return {"format": FORMAT, "kind": self.kind, **sizes}

    def save(self, directory: Path) -> None:
        """Write the model file, and then ``vocabulary.json``.

        The latter marks a complete directory.
        """
        content, description = self.content(), self.description()
        with replacing(directory / self.model_file) as temporary:
            temporary.write_bytes(content)
        write_json(directory / DESCRIPTION, {**description, "sha256": hashlib.sha256(content).hexdigest()})

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Load the vocabulary that :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The vocabulary is missing, damaged, of another kind, or does not match its
                description.
        """
        description, path = read_description(directory, cls.kinds), directory / cls.model_file
        with intact("the vocabulary's model file is", path):
            content = read_regular(path)
        if hashlib.sha256(content).hexdigest() != description["sha256"]:
            raise data_error("the vocabulary's model file is not the one saved", path)
        with intact("the vocabulary's model file is", path):
            loaded = cls.of(content, description)
        if loaded.entries != description["entries"]:
            what = f"the vocabulary has {loaded.entries:,} entries instead of the {description['entries']} that it says"
            raise data_error(what, directory)
        return loaded


def read_description(directory: Path, kinds: Sequence[str]) -> dict[str, Any]:
    """Read and check ``vocabulary.json``.

    A missing ``requested`` is set to the size. Valid sizes are whole numbers from 2 to 2^31, and the size is at least
    the entries.

    Raises:
        PhmrunError: (exit 3) The file is missing or damaged, its sizes are invalid, or its format or kind is another.
    """
    path = directory / DESCRIPTION
    with intact("the vocabulary is", path):
        description = dict(parse_json(read_text(path)))
        kind, form = description["kind"], description.get("format", FORMAT)
        size, entries = description["size"], description["entries"]
        _ = description["sha256"]
        sizes = [size, entries, description.setdefault("requested", size)]
        if not all(isinstance(number, int) and 2 <= number <= LARGEST for number in sizes) or size < entries:
            raise ValueError(f"sizes {sizes}")
    if form != FORMAT or kind not in kinds:
        what = f"this version reads vocabularies of format {FORMAT} and kind {', '.join(kinds)}, not {form!r}, {kind!r}"
        raise data_error(what, path)
    return description


def padded_size(entries: int, multiple_of: int) -> int:
    """Return ``entries`` rounded up to a multiple of ``multiple_of``."""
    return -(-entries // multiple_of) * multiple_of


def without_specials(ids: Iterable[int], entries: int) -> list[int]:
    """Return the ids up to the first end token.

    Padding, beginning tokens and unused ids are left out.
    """
    kept = []
    for token in map(int, ids):
        if token == EOS:
            break
        if token not in (PAD, BOS) and token < entries:
            kept.append(token)
    return kept


class WordVocabulary(Vocabulary):
    """Vocabulary of words separated by white space.

    Line k of ``words.txt`` holds the word with id k - 1. It is meant for text that is tokenized already, as the papers'
    word-level corpora are. In raw text a word and the same word with a comma are two entries; subwords are the better
    choice there.
    """

    kinds = ("word",)
    model_file = "words.txt"

    def __init__(self, words: Sequence[str], *, size: int, requested: int) -> None:
        super().__init__("word", words, size=size, requested=requested)
        # The word "</s>" in the text is not the end token.
        self._ids = {word: index for index, word in enumerate(words) if index >= len(SPECIALS)}

    def encode(self, text: str) -> list[int]:
        """Return the ids of one line's words, without beginning and end.

        Words are split at white space; those not in the vocabulary are unknown.
        """
        ids = self._ids
        return [ids.get(word, UNK) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the words up to the end token, joined with spaces.

        Padding, beginning and unused ids are skipped.
        """
        return " ".join(self.tokens[token] for token in without_specials(ids, self.entries))

    def content(self) -> bytes:
        """Return the words as bytes, one a line.

        They are in the order of ids, special tokens included.
        """
        return "".join(f"{word}\n" for word in self.tokens).encode()

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """Build the vocabulary from a list of words, one a line.

        Raises:
            ValueError: The text is not UTF-8, or holds no valid list.
            LookupError: The description lacks a key.
        """
        words = content.decode().split("\n")[:-1]
        return cls(words, size=description["size"], requested=description["requested"])


def train_words(lines: Iterable[str], *, size: int, multiple_of: int = 1, min_frequency: int = 1) -> WordVocabulary:
    """Train a vocabulary of the most frequent words.

    Lines are split at white space. The special tokens have the first ids, then come the words by falling count, equal
    counts in alphabetical order.

    Args:
        lines: The training text, read once; memory grows with the number of distinct words only.
        size: Largest size, including the four special tokens.
        multiple_of: The size is padded to a multiple of this.
        min_frequency: Rarer words are unknown.

    Raises:
        PhmrunError: (exit 3) The text is empty.
    """
    from torchtext.vocab import Vocab  # brings torch with it

    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(line.split())
    if not counts:
        raise data_error("there is no text to learn a vocabulary from")
    vocab = Vocab(counts, max_size=size - len(SPECIALS), min_freq=min_frequency, specials=list(SPECIALS))
    return WordVocabulary(vocab.itos, size=padded_size(len(vocab.itos), multiple_of), requested=size)
