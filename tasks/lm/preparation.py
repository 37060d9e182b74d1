"""Preparation of a language-modeling corpus: vocabulary, and token stores in the cache.

A store is a memory-mapped row of token ids in constant memory. It is a directory with ``tokens.bin`` (little-endian,
two bytes per token for at most 65,536 entries, else four) and ``store.json``. The latter is written last, so a
directory without it is no store.
"""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from phmrun.engine.data import contents
from phmrun.files import write_json
from phmrun.progress import note, progress
from phmrun.tasks.lm.config import BPE
from phmrun.tasks.lm.vocabulary import StreamVocabulary, count_words, without_end
from phmrun.text.lines import LONGEST_PARAGRAPH, numbered_lines
from phmrun.text.store import TRAIN, Prepared, StreamStore, prepare
from phmrun.text.tokenizer import learn_bpe
from phmrun.text.words import Splitting

VERSION = 1  # increased when the same text and settings give other ids or another layout
STEP = 1024  # lines between two progress updates
CHUNK = 4096  # lines that are written at a time


@dataclass(frozen=True)
class StreamSettings:
    """Tokenization settings of running text."""

    size: int | None = None  # maximum number of entries; None: all words of the training text
    multiple_of: int = 1  # the size is padded to a multiple of this
    splitting: Splitting = "space"  # splitting of lines into words
    min_frequency: int = 1  # words rarer than this in training are unknown
    kind: Literal["word", "bpe"] = "word"


def write_stream(path: Path, lines: Iterable[Sequence[int]], *, unknown: int, vocabulary_size: int) -> dict[str, Any]:
    """Write a store of words in constant memory.

    Existing files are overwritten.

    Args:
        path: Directory of the store; created if missing.
        lines: Ids of the words of each line.
        unknown: Id of unknown words; negative if there are none.
        vocabulary_size: Upper bound of the ids; determines the bytes per token.

    Returns:
        ``tokens``, ``unknown`` (tokens) and ``types`` (distinct ids).
    """
    path.mkdir(parents=True, exist_ok=True)
    dtype = np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")
    seen = np.zeros(vocabulary_size, dtype=np.int64)
    rest = iter(lines)
    with (path / "tokens.bin").open("wb") as file:
        while chunk := list(itertools.islice(rest, CHUNK)):
            tokens = np.fromiter(itertools.chain.from_iterable(chunk), dtype=dtype)
            seen += np.bincount(tokens, minlength=vocabulary_size)
            file.write(tokens.tobytes())
        file.flush()
        os.fsync(file.fileno())
    total = int(seen.sum())
    write_json(path / "store.json", {"tokens": total, "dtype": dtype.str})
    return {"tokens": total, "unknown": int(seen[unknown]) if unknown >= 0 else 0, "types": int(np.count_nonzero(seen))}


def prepare_stream(
    files: Mapping[str, Path],
    settings: StreamSettings,
    *,
    cache: Path,
    vocabulary: StreamVocabulary | None = None,
) -> Prepared[StreamVocabulary, StreamStore]:
    """Build the vocabulary of a corpus and encode it.

    Both are loaded from the cache if it has them. Memory does not grow with the text. A note on stderr tells the number
    of words. The statistics of a split are lines, characters, tokens, unknown, types and unknown_rate.

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

        Keys: lines, characters, tokens, unknown, types, unknown_rate (0–1). A note on stderr follows the training
        split.
        """
        tally = Tally(text_lines(files[split], f"encoding {split}"))
        lines, size = vocabulary.stream(tally), len(vocabulary)
        stored = write_stream(path, lines, unknown=vocabulary.unknown, vocabulary_size=size)
        if split == TRAIN:
            kinds = "words" if isinstance(vocabulary, StreamVocabulary) else "tokens"
            note(f"{vocabulary.entries:,} different {kinds}, {stored['tokens']:,} tokens to learn from")
        # After the store is written, since the tally counts the lines as they are read.
        counts = {"lines": tally.lines, "characters": tally.characters, **stored}
        return {**counts, "unknown_rate": stored["unknown"] / stored["tokens"]}

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
