"""The words of running text, as language models count them: each line ends in a word of its own.

Ids fall with frequency, as an adaptive softmax wants them. There is no padding and no beginning: the literature's
vocabularies (10,000 words of the Penn Treebank, 33,278 of WikiText-2) hold the words, the end of a line and the unknown
word, and nothing else.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Self

from phmrun.errors import ExitCode, PhmrunError
from phmrun.text.vocabulary import Splitting, Vocabulary, padded_size, spaced

END, UNKNOWN = "<eos>", "<unk>"
CHUNK = 4096  # lines that are split into words at a time


class StreamVocabulary(Vocabulary):
    """Words in the order of their ids, with what they count in the training text.

    Line k of ``words.tsv`` holds the word of id k - 1, and its count.

    Args:
        words: All entries; the end of a line and the unknown word are two of them.
        counts: How often each occurs in the training text.
        size: Rows that an embedding needs, at least the number of words.
        splitting: How a line becomes words: at white space ("space"), or marks and clitics apart ("punctuation").
    """

    kinds = ("stream",)
    model_file = "words.tsv"

    def __init__(self, words: Sequence[str], counts: Sequence[int], *, size: int, splitting: Splitting) -> None:
        super().__init__("stream", words, size=size, requested=size)
        self.counts = list(counts)
        self.splitting: Splitting = splitting
        self.ids = {word: index for index, word in enumerate(self.tokens)}
        self.end = self.ids[END]
        self.unknown = self.ids[UNKNOWN]

    @property
    def sizes(self) -> tuple[int]:
        """What the network is built for."""
        return (len(self),)

    def encode(self, text: str) -> list[int]:
        """The ids of a line's words, without its end."""
        ids, unknown = self.ids, self.unknown
        return [ids.get(word, unknown) for word in split_line(text, self.splitting)]

    def decode(self, ids: Iterable[int]) -> str:
        """Words joined by single spaces, each end of a line as a line's end."""
        text: list[str] = []
        for token in ids:
            if token == self.end:
                text.append("\n")
            elif token < len(self.tokens):
                text += ["" if not text or text[-1] == "\n" else " ", self.tokens[token]]
        return "".join(text)

    def content(self) -> bytes:
        """The words and their counts, one a line."""
        return "".join(f"{word}\t{count}\n" for word, count in zip(self.tokens, self.counts, strict=True)).encode()

    def description(self) -> dict[str, Any]:
        """What ``vocabulary.json`` says, beside the checksum."""
        return {"kind": self.kind, "size": len(self), "entries": self.entries, "splitting": self.splitting}

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """The vocabulary of a list of words and counts."""
        rows = [line.split("\t") for line in content.decode().split("\n")[:-1]]
        words, counts = [word for word, _ in rows], [int(count) for _, count in rows]
        return cls(words, counts, size=description["size"], splitting=description["splitting"])


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

    The text is read once; memory grows with the number of different words only. ``size`` is the most entries, the end
    of a line and the unknown word included (all unless given), padded to a multiple; rarer words than ``min_frequency``
    are unknown. ``where`` is the text's file, for an error.

    Raises:
        PhmrunError: (exit 3) There is no text.
    """
    counts: Counter[str] = Counter()
    for chunk in chunks_of_words(lines, splitting):
        counts.update(chunk)
    if not counts.keys() - {END}:
        raise PhmrunError("there is no word in the training text", where=where, code=ExitCode.DATA)
    special = {END: counts.pop(END), UNKNOWN: counts.pop(UNKNOWN, 0)}
    ranked = sorted(counts.items(), key=_rank)
    kept = [entry for entry in ranked if entry[1] >= min_frequency]
    kept = kept if size is None else kept[: max(size - len(special), 0)]
    special[UNKNOWN] += sum(count for _, count in ranked[len(kept) :])
    entries = sorted([*kept, *special.items()], key=_rank)
    words, totals = zip(*entries, strict=True)
    return StreamVocabulary(words, totals, size=padded_size(len(entries), multiple_of), splitting=splitting)


def _rank(entry: tuple[str, int]) -> tuple[int, str]:
    return -entry[1], entry[0]
