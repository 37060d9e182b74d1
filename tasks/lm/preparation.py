"""From the files of a language-modelling corpus to a vocabulary and token stores in the cache."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of, write_json
from phmrun.progress import note, progress
from phmrun.tasks.lm.store import StreamStore, write_stream
from phmrun.tasks.lm.vocabulary import StreamVocabulary, chunks_of_words, count_words
from phmrun.text.cache import build_once, content_name
from phmrun.text.lines import numbered_lines
from phmrun.text.words import Splitting

VERSION = 1
"""Raised whenever the same text and settings would give other ids or another layout."""
TRAIN, STATISTICS, VOCABULARY = "train", "statistics.json", "vocabulary"
LONGEST_LINE = 1 << 24
"""Bytes; running text may have a paragraph a line, and even a document."""
STEP = 1024
"""Lines between two signs of progress."""


@dataclass(frozen=True)
class StreamSettings:
    """How text becomes tokens.

    Args:
        size: Most entries of the vocabulary; all words of the training text unless given.
        multiple_of: The size is padded to a multiple of this.
        splitting: How a line becomes words.
        min_frequency: Words rarer than this in training are unknown.
    """

    size: int | None = None
    multiple_of: int = 1
    splitting: Splitting = "space"
    min_frequency: int = 1


@dataclass(frozen=True)
class PreparedStream:
    """A corpus that is ready to train on.

    Args:
        path: Its directory in the cache.
        vocabulary: Of the training text.
        stores: Token ids by split.
        statistics: ``vocabulary`` and, by split, ``splits``, all of it JSON.
    """

    path: Path
    vocabulary: StreamVocabulary
    stores: dict[str, StreamStore]
    statistics: dict[str, Any]


def prepare_stream(files: Mapping[str, Path], settings: StreamSettings, *, cache: Path) -> PreparedStream:
    """Counts the words of a corpus and encodes it, or finds that done in the cache; memory does not grow with it.

    Args:
        files: Text by split, UTF-8, plain or gzip; ``train`` is among them.
        settings: How text becomes tokens.
        cache: Directory of prepared corpora.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """
    if TRAIN not in files:
        raise PhmrunError("there is no training split to take words from", code=ExitCode.DATA)
    for path in files.values():
        if not path.is_file():
            raise PhmrunError("the file does not exist", where=str(path), code=ExitCode.DATA)
    sums = {split: sha256_of(path) for split, path in sorted(files.items())}
    content = {"kind": "stream", "version": VERSION, "files": sums, "settings": asdict(settings)}
    path = cache / content_name(content)
    build_once(path, STATISTICS, partial(_build, files=files, settings=settings))
    try:
        statistics = parse_json((path / STATISTICS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = f"the prepared corpus is damaged: {error}"
        raise PhmrunError(
            what, where=str(path), hint=f"Remove {path}; it is made again.", code=ExitCode.DATA
        ) from error
    stores = {split: StreamStore(path / split) for split in files}
    return PreparedStream(path, StreamVocabulary.load(path / VOCABULARY), stores, statistics)


def text_lines(path: Path, label: str) -> Iterator[str]:
    """The lines of a text, with progress; a paragraph, or no words at all, may stand on a line."""
    with progress(label, None, "lines") as advance:
        for number, line in numbered_lines(path, longest=LONGEST_LINE):
            if number % STEP == 0:
                advance(STEP)
            yield line


def _build(path: Path, *, files: Mapping[str, Path], settings: StreamSettings) -> None:
    """Fills ``path``."""
    vocabulary = count_words(text_lines(files[TRAIN], "counting words"), where=str(files[TRAIN]), **asdict(settings))
    vocabulary.save(path / VOCABULARY)
    splits = {}
    for split, file in files.items():
        tally = Tally(text_lines(file, f"encoding {split}"))
        stored = write_stream(
            path / split,
            chunks_of_words(tally, settings.splitting),
            vocabulary.ids,
            unknown=vocabulary.unknown,
            vocabulary_size=len(vocabulary),
        )
        splits[split] = {"lines": tally.lines, "characters": tally.characters, **stored}
        splits[split]["unknown_rate"] = stored["unknown"] / stored["tokens"]
    entries = {"entries": len(vocabulary.tokens), "size": len(vocabulary), "splitting": vocabulary.splitting}
    write_json(path / STATISTICS, {"vocabulary": entries, "splits": splits})
    note(f"{entries['entries']:,} different words, {splits[TRAIN]['tokens']:,} tokens to learn from")


class Tally:
    """Lines on their way, counted.

    Args:
        source: The lines.

    Attributes:
        lines: How many have passed.
        characters: Characters in them, the end of each line included.
    """

    def __init__(self, source: Iterable[str]) -> None:
        self.source = source
        self.lines = 0
        self.characters = 0

    def __iter__(self) -> Iterator[str]:
        """The lines."""
        for line in self.source:
            self.lines += 1
            self.characters += len(line) + 1
            yield line
