"""Vocabulary of running text, in which each line ends with an end-of-line word.

Ids are in order of falling frequency, as an adaptive softmax needs. As in the literature (10,000 words of the Penn
Treebank, 33,278 of WikiText-2), there is no padding and no beginning: only words, end of line, and unknown word.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from phmrun.errors import data_error
from phmrun.text.tokenizer import TokenizerVocabulary
from phmrun.text.vocabulary import Vocabulary, padded_size, read_description
from phmrun.text.words import Splitting, spaced

END, UNKNOWN = "<eos>", "<unk>"


class StreamVocabulary(Vocabulary):
    """Words in the order of their ids, with their counts in the training text.

    Line k of ``words.tsv`` holds the word of id k - 1 and its count.

    Args:
        words: All entries, end of line and unknown word included.
        counts: Count of each in the training text.
        size: Rows of an embedding, at least the number of words.
        splitting: "space": at white space; "punctuation": marks and clitics are split off, too.
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

    def encode(self, text: str) -> list[int]:
        """Return the ids of a line's words, without its end.

        Words that are not in the vocabulary have the id of the unknown word.
        """
        ids, unknown = self.ids, self.unknown
        return [ids.get(word, unknown) for word in split_line(without_end(text), self.splitting)]

    @property
    def unit(self) -> str:
        """Signature of the predicted units: splitting and size."""
        return f"unit:word|split:{self.splitting}|vocabulary:{len(self)}|end:counted"

    def stream(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """Yield the ids of each line's words, with its end."""
        ids, unknown, end = self.ids, self.unknown, [self.end]
        for line in lines:
            yield [ids.get(word, unknown) for word in split_line(line, self.splitting)] + end

    def ends_line(self, token: int) -> bool:
        """Return True for the end of a line."""
        return token == self.end

    def decode(self, ids: Iterable[int]) -> str:
        """Join words with single spaces.

        An end of line becomes a newline. Unused ids are skipped.
        """
        text: list[str] = []
        for token in ids:
            if token == self.end:
                text.append("\n")
            elif token < len(self.tokens):
                text += ["" if not text or text[-1] == "\n" else " ", self.tokens[token]]
        return "".join(text)

    def content(self) -> bytes:
        """Return UTF-8 lines of a word, a tab and its count."""
        return "".join(f"{word}\t{count}\n" for word, count in zip(self.tokens, self.counts, strict=True)).encode()

    def description(self) -> dict[str, Any]:
        """Return the content of ``vocabulary.json``, without the checksum.

        Keys: kind, size, entries, splitting.
        """
        return {"kind": self.kind, "size": len(self), "entries": self.entries, "splitting": self.splitting}

    @classmethod
    def load(cls, directory: Path) -> Any:
        """Load the vocabulary of a run: words, or the tokens of a tokenizer.

        Raises:
            PhmrunError: (exit 3) The vocabulary is missing, damaged, or of another kind.
        """
        kind = read_description(directory, (*cls.kinds, *TokenizerVocabulary.kinds))["kind"]
        return super().load(directory) if kind in cls.kinds else TokenizerVocabulary.load(directory)

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """Build the vocabulary from its stored words, counts and description.

        Raises:
            ValueError, LookupError: The content is damaged.
        """
        rows = [line.split("\t") for line in content.decode().split("\n")[:-1]]
        words, counts = [word for word, _ in rows], [int(count) for _, count in rows]
        return cls(words, counts, size=description["size"], splitting=description["splitting"])


def without_end(line: str) -> str:
    """Return a line without an end-of-line word at its end, which each line has anyway."""
    text = line.rstrip()
    return text.removesuffix(END).rstrip() if text == END or text.endswith((f" {END}", f"\t{END}")) else line


def split_line(line: str, splitting: Splitting) -> list[str]:
    """Return the words of a line, without its end.

    "space" splits at white space; "punctuation" also splits off marks and clitics. Case is kept.
    """
    return line.split() if splitting == "space" else spaced(line, False, splitting).split()


def count_words(
    lines: Iterable[str],
    *,
    size: int | None = None,
    multiple_of: int = 1,
    splitting: Splitting = "space",
    min_frequency: int = 1,
    where: str | None = None,
) -> StreamVocabulary:
    """Build the vocabulary of a text, most frequent words first.

    Ties are in alphabetical order. The text is read once. Memory grows only with the number of distinct words. The
    unknown word's count is that of all words left out. End of line and unknown word are always kept and ranked by their
    counts, too.

    Args:
        lines: The text.
        size: Maximum number of entries, end of line and unknown word included; all if not given.
        multiple_of: The size is padded to a multiple of this.
        splitting: Splitting of lines into words.
        min_frequency: Minimum count of a word; rarer ones are unknown.
        where: File of the text, for errors.

    Raises:
        PhmrunError: (exit 3) The text has no words.
    """
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split_line(line, splitting))
        counts[END] += 1
    if not counts.keys() - {END}:
        raise data_error("there is no word in the training text", where)
    special = {END: counts.pop(END), UNKNOWN: counts.pop(UNKNOWN, 0)}
    ranked = sorted(counts.items(), key=_rank)
    kept = [entry for entry in ranked if entry[1] >= min_frequency]
    kept = kept if size is None else kept[: max(size - len(special), 0)]
    special[UNKNOWN] += sum(count for _, count in ranked[len(kept) :])
    entries = sorted([*kept, *special.items()], key=_rank)
    words, totals = zip(*entries, strict=True)
    return StreamVocabulary(words, totals, size=padded_size(len(entries), multiple_of), splitting=splitting)


def _rank(entry: tuple[str, int]) -> tuple[int, str]:
    """Return the sorting key: falling count, then the word."""
    return -entry[1], entry[0]
