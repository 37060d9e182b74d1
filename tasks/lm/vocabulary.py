"""The words of running text, as language models count them: each line ends in a word of its own.

Ids fall with frequency, as an adaptive softmax wants them. There is no padding and no beginning: the literature's
vocabularies (10,000 words of the Penn Treebank, 33,278 of WikiText-2) hold the words, the end of a line and the unknown
word, and nothing else.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Self

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of, write_json, write_text
from phmrun.text.vocabulary import padded_size
from phmrun.text.words import Splitting, spaced

END, UNKNOWN = "<eos>", "<unk>"
WORDS, DESCRIPTION = "words.tsv", "vocabulary.json"
CHUNK = 4096
"""Lines that are split into words at a time."""


class StreamVocabulary:
    """Words in the order of their ids, with what they count in the training text.

    Args:
        words: All entries; the end of a line and the unknown word are two of them.
        counts: How often each occurs in the training text.
        size: Rows that an embedding needs, at least the number of words.
        splitting: How a line becomes words: at white space ("space"), or marks and clitics apart ("punctuation").
    """

    def __init__(self, words: Sequence[str], counts: Sequence[int], *, size: int, splitting: Splitting) -> None:
        self.words = list(words)
        self.counts = list(counts)
        self.splitting: Splitting = splitting
        self._size = size
        self.ids = {word: index for index, word in enumerate(self.words)}
        self.end = self.ids[END]
        self.unknown = self.ids[UNKNOWN]

    def __len__(self) -> int:
        """Rows that an embedding needs, unused ones included."""
        return self._size

    @property
    def sizes(self) -> tuple[int]:
        """What the network is built for."""
        return (self._size,)

    @property
    def sha256(self) -> str:
        """Checksum of the list of words as it is saved."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def encode(self, line: str) -> list[int]:
        """The ids of a line's words, without its end."""
        ids, unknown = self.ids, self.unknown
        return [ids.get(word, unknown) for word in split_line(line, self.splitting)]

    def decode(self, ids: Iterable[int]) -> str:
        """Words joined by single spaces, each end of a line as a line's end."""
        text: list[str] = []
        for token in ids:
            if token == self.end:
                text.append("\n")
            elif token < len(self.words):
                text += ["" if not text or text[-1] == "\n" else " ", self.words[token]]
        return "".join(text)

    def save(self, directory: Path) -> None:
        """Writes ``words.tsv`` (line k: the word of id k - 1, and its count) and ``vocabulary.json``."""
        write_text(directory / WORDS, self._text())
        description = {
            "kind": "stream",
            "size": self._size,
            "entries": len(self.words),
            "splitting": self.splitting,
            "sha256": sha256_of(directory / WORDS),
        }
        write_json(directory / DESCRIPTION, description)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads what :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The directory holds no such vocabulary, or a damaged one.
        """
        path = directory / WORDS
        try:
            description = parse_json((directory / DESCRIPTION).read_text(encoding="utf-8"))
            rows = [line.split("\t") for line in path.read_text(encoding="utf-8").split("\n")[:-1]]
            loaded = cls(
                [word for word, _ in rows],
                [int(count) for _, count in rows],
                size=int(description["size"]),
                splitting=description["splitting"],
            )
            if len(loaded.words) > int(description["size"]):
                raise ValueError(f"size {description['size']} for {len(loaded.words)} words")
            intact = description["sha256"] == loaded.sha256
        except (OSError, ArithmeticError, ValueError, KeyError, TypeError) as error:
            what = f"the vocabulary is missing or damaged: {error!r}"
            raise PhmrunError(what, where=str(directory), code=ExitCode.DATA) from error
        if not intact:
            raise PhmrunError("the vocabulary's words are not those saved", where=str(path), code=ExitCode.DATA)
        return loaded

    def _text(self) -> str:
        return "".join(f"{word}\t{count}\n" for word, count in zip(self.words, self.counts, strict=True))


def split_line(line: str, splitting: Splitting) -> list[str]:
    """The words of a line, without its end."""
    return line.split() if splitting == "space" else spaced(line, False, splitting).split()


def chunks_of_words(lines: Iterable[str], splitting: Splitting) -> Iterable[list[str]]:
    """The words of several thousand lines at a time, the end of each line among them."""
    rest = iter(lines)
    while chunk := list(islice(rest, CHUNK)):
        words: list[str] = []
        for line in chunk:
            words += split_line(line, splitting)
            words.append(END)
        yield words


def count_words(
    lines: Iterable[str],
    *,
    size: int | None = None,
    multiple_of: int = 1,
    splitting: Splitting = "space",
    min_frequency: int = 1,
    where: str | None = None,
) -> StreamVocabulary:
    """The vocabulary of a text, most frequent words first, equal counts in alphabetical order.

    Args:
        lines: The training text, read once; memory grows with the number of different words only.
        size: Most entries, the end of a line and the unknown word included; rarer words are unknown. All unless given.
        multiple_of: The size is padded to a multiple of this.
        splitting: How a line becomes words.
        min_frequency: Rarer words are unknown.
        where: The text's file, for an error.

    Raises:
        PhmrunError: (exit 3) There is no text.
    """
    counts: Counter[str] = Counter()
    for words in chunks_of_words(lines, splitting):
        counts.update(words)
    if not counts.keys() - {END}:
        raise PhmrunError("there is no word in the training text", where=where, code=ExitCode.DATA)
    special = {END: counts.pop(END), UNKNOWN: counts.pop(UNKNOWN, 0)}
    ranked = sorted(counts.items(), key=_rank)
    kept = [entry for entry in ranked if entry[1] >= min_frequency]
    kept = kept if size is None else kept[: max(size - len(special), 0)]
    special[UNKNOWN] += sum(count for _, count in ranked[len(kept) :])
    entries = sorted([*kept, *special.items()], key=_rank)
    return StreamVocabulary(
        [word for word, _ in entries],
        [count for _, count in entries],
        size=padded_size(len(entries), multiple_of),
        splitting=splitting,
    )


def _rank(entry: tuple[str, int]) -> tuple[int, str]:
    word, count = entry
    return -count, word
