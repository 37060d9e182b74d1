"""Preparation of a language-modeling corpus: vocabulary, and token stores in the cache."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from phmrun.engine.data import contents
from phmrun.progress import note, progress
from phmrun.tasks.lm.config import BPE
from phmrun.tasks.lm.vocabulary import StreamVocabulary, count_words, without_end
from phmrun.text.lines import LONGEST_PARAGRAPH, numbered_lines
from phmrun.text.store import TRAIN, Prepared, StreamStore, TokenStoreWriter, prepare
from phmrun.text.tokenizer import learn_bpe
from phmrun.text.words import Splitting

VERSION = 2  # increased when the same text and settings give other ids or another layout
STEP = 1024  # lines between two progress updates


@dataclass(frozen=True)
class StreamSettings:
    """Tokenization settings of running text."""

    size: int | None = None  # maximum number of entries; None: all words of the training text
    multiple_of: int = 1  # the size is padded to a multiple of this
    splitting: Splitting = "space"  # splitting of lines into words
    min_frequency: int = 1  # words rarer than this in training are unknown
    kind: Literal["word", "bpe"] = "word"


def prepare_stream(
    files: Mapping[str, Path],
    settings: StreamSettings,
    *,
    cache: Path,
    vocabulary: StreamVocabulary | None = None,
) -> Prepared[StreamVocabulary, StreamStore]:
    """Build the vocabulary of a corpus and encode it.

    Both are loaded from the cache if it has them. Memory does not grow with the text. A note on stderr tells the number
    of words. The statistics of a split are lines, characters, tokens, mean_length,
    max_length, unknown_rate and types.

    Args:
        files: Text by split, UTF-8, plain or gzip; has "train".
        settings: Tokenization settings.
        cache: Directory of prepared corpora.
        vocabulary: Vocabulary to use; ``settings`` are then ignored. None: learn it.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """
    words = {name: value for name, value in asdict(settings).items() if name != "kind"}
    asked = words if settings.kind == "word" else asdict(settings)
    content = {"kind": "stream", "version": VERSION, "files": dict(files), "settings": asked}
    if vocabulary is not None:
        content["vocabulary"] = contents(vocabulary)

    def learn() -> Any:
        """Return the given vocabulary, else build that of the training text."""
        if vocabulary is not None:
            return vocabulary
        lines = text_lines(files[TRAIN], "counting words")
        if settings.kind == "bpe":
            return learn_bpe(lines, size=settings.size or BPE, multiple_of=settings.multiple_of)
        return count_words(lines, where=str(files[TRAIN]), **words)

    def encode(split: str, vocabulary: StreamVocabulary, path: Path) -> dict[str, Any]:
        """Write the store of a split, and return its statistics.

        Keys: lines and characters, and those of ``TokenStoreWriter.statistics``. A note on stderr follows the training
        split.
        """
        tally = Tally(text_lines(files[split], f"encoding {split}"))
        with TokenStoreWriter(path, vocabulary_size=len(vocabulary), unknown=vocabulary.unknown) as writer:
            for ids in vocabulary.stream(tally):
                writer.append(ids)
        stored = writer.statistics()
        if split == TRAIN:
            kinds = "words" if isinstance(vocabulary, StreamVocabulary) else "tokens"
            note(f"{vocabulary.entries:,} different {kinds}, {stored['tokens']:,} tokens to learn from")
        return {"lines": tally.lines, "characters": tally.characters, **stored}

    return prepare(
        cache,
        content,
        files,
        learn=learn,
        encode=encode,
        describe=lambda vocabulary: {
            "entries": vocabulary.entries,
            "size": len(vocabulary),
            "splitting": getattr(vocabulary, "splitting", "tokens"),
        },
        kind=StreamVocabulary,
        store=StreamStore,
    )


def text_lines(path: Path, label: str) -> Iterator[str]:
    """Yield the lines of a text, with progress.

    An end-of-line word at the end of a line is removed, since each line gets one. Blank lines and lines of up to 16 MiB
    are allowed.

    Raises:
        PhmrunError: (exit 3) The file is missing or malformed.
    """
    with progress(label, None, "lines") as advance:
        for number, line in numbered_lines(path, longest=LONGEST_PARAGRAPH):
            if number % STEP == 0:
                advance(STEP)
            yield without_end(line)


@dataclass
class Tally:
    """Iterator of lines that counts them, their characters, and their bytes in UTF-8, line ends included."""

    source: Iterable[str]
    lines: int = 0
    characters: int = 0
    bytes: int = 0

    def __iter__(self) -> Iterator[str]:
        for line in self.source:
            self.lines += 1
            self.characters += len(line) + 1
            self.bytes += len(line.encode("utf-8")) + 1
            yield line
