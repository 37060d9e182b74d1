"""Sentences with a label: what an item is, and many of them as numbers on disk, made once per content.

The result lies in ``cache/<hash>/``: ``vocabulary/``, and by split a token store per sentence of an item
(``sentence-1/``, ``sentence-2/``) and ``labels.npy``.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sentence_classification.vocabulary import ClassificationVocabulary, WordSettings
from phmrun.files import sha256_of, write_json
from phmrun.progress import note, progress
from phmrun.text.cache import build_once, content_name
from phmrun.text.statistics import SideStatistics
from phmrun.text.store import TokenStore, TokenStoreWriter
from phmrun.text.words import spaced, train_words

VERSION = 1
"""Raised whenever the same text and settings would give other ids or another layout."""
TRAIN, DEV = "train", "dev"
LAST = "statistics.json"
"""Written last: a directory that has it is complete."""


class Item(NamedTuple):
    """What is classified.

    Attributes:
        sentences: One sentence, or two that are compared.
        label: Its class.
        part: The part of its split that is scored by itself, too; empty: none.
    """

    sentences: tuple[str, ...]
    label: str
    part: str = ""


class LeftOut(NamedTuple):
    """Items that a reader passes over.

    Attributes:
        reason: Why: "no gold label".
        items: How many.
    """

    reason: str
    items: int = 1


Reader = Callable[[], Iterable[Item | LeftOut]]
"""Reads a split from its start."""


class ItemStore:
    """The encoded items of one split.

    Args:
        path: Its directory.
        sentences: Sentences of an item.

    Raises:
        PhmrunError: (exit 3) The directory holds no complete store.
    """

    def __init__(self, path: Path, sentences: int) -> None:
        self.path = path
        self.sentences = [TokenStore(path / f"sentence-{number}") for number in range(1, sentences + 1)]
        try:
            self.labels: NDArray[np.int64] = np.load(path / "labels.npy", mmap_mode="r", allow_pickle=False)
        except (OSError, ArithmeticError, ValueError, EOFError, SyntaxError, TokenError) as error:
            what = f"the labels are missing or damaged ({error})"
            raise PhmrunError(what, where=str(path), hint="Remove its directory.", code=ExitCode.DATA) from error

    def __len__(self) -> int:
        """Items."""
        return len(self.labels)

    def __reduce__(self) -> tuple[type["ItemStore"], tuple[Path, int]]:
        """Loader processes get the path and map the files themselves."""
        return ItemStore, (self.path, len(self.sentences))


@dataclass(frozen=True)
class PreparedItems:
    """Labelled sentences that are ready to train on.

    Args:
        path: Their directory in the cache.
        vocabulary: Words and labels.
        stores: Token ids and labels by split.
        statistics: Sizes and rates, all of it JSON: ``vocabulary`` and, by split, ``splits``.
    """

    path: Path
    vocabulary: ClassificationVocabulary
    stores: dict[str, ItemStore]
    statistics: dict[str, Any]


def prepare_items(
    readers: Mapping[str, Reader],
    sources: Sequence[Path],
    *,
    labels: Sequence[str],
    sentences: int,
    words: WordSettings,
    max_length: int,
    reading: Mapping[str, Any],
    cache: Path,
) -> PreparedItems:
    """Learns the vocabulary from, and encodes, a training and a validation split; or finds it done in the cache.

    Args:
        readers: How each split is read; "train" is needed.
        sources: The files that they read, whose contents name the result.
        labels: The classes in the order of their indices.
        sentences: Sentences of an item.
        words: How sentences become words.
        max_length: Training items with a sentence of more words are left out and counted; other splits keep all.
        reading: What else the readers depend on, JSON.
        cache: Directory of prepared data.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed, or a split has no items.
    """
    for path in sources:
        if not path.is_file():
            raise PhmrunError("the file does not exist", where=str(path), code=ExitCode.DATA)
    content = {
        "version": VERSION,
        "sources": [sha256_of(path) for path in sources],
        "reading": dict(reading),
        "labels": list(labels),
        "words": vars(words),
        "max_length": max_length,
        "splits": sorted(readers),
    }
    path = cache / content_name(content)
    work = _Work(tuple(labels), sentences, words, max_length)
    build_once(path, LAST, lambda place: _build(place, readers, work))
    try:
        statistics = parse_json((path / LAST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        what = f"the prepared data are damaged: {error}"
        raise PhmrunError(
            what, where=str(path), hint="Remove the directory; it is made again.", code=ExitCode.DATA
        ) from error
    stores = {split: ItemStore(path / split, sentences) for split in readers}
    return PreparedItems(path, ClassificationVocabulary.load(path / "vocabulary"), stores, statistics)


@dataclass(frozen=True)
class _Work:
    """What is to be made of the items."""

    labels: tuple[str, ...]
    sentences: int
    words: WordSettings
    max_length: int


def _build(path: Path, readers: Mapping[str, Reader], work: _Work) -> None:
    """Fills ``path``."""
    vocabulary = _learn(readers[TRAIN], work)
    vocabulary.save(path / "vocabulary")
    splits = {}
    for split, reader in readers.items():
        limit = work.max_length if split == TRAIN else None
        splits[split] = _encode(split, reader, vocabulary, work.sentences, limit, path / split)
        if not splits[split]["items"]:
            raise PhmrunError(f"there is no item in {split!r}", hint="See data.max_length.", code=ExitCode.DATA)
    size, entries = len(vocabulary.words), vocabulary.words.entries
    described = {"size": size, "entries": entries, "requested": vocabulary.words.requested}
    write_json(path / LAST, {"vocabulary": {**described, "labels": len(work.labels)}, "splits": splits})


def _learn(reader: Reader, work: _Work) -> ClassificationVocabulary:
    """The vocabulary of the training split."""
    settings = work.words

    def lines() -> Iterator[str]:
        with progress("reading text for the vocabulary", None, "items") as advance:
            for item in reader():
                if isinstance(item, Item):
                    yield from (spaced(text, settings.lowercase, settings.splitting) for text in item.sentences)
                    advance(1)

    words = train_words(
        lines(), size=settings.size, multiple_of=settings.multiple_of, min_frequency=settings.min_frequency
    )
    return ClassificationVocabulary(words, work.labels, lowercase=settings.lowercase, splitting=settings.splitting)


def _encode(
    split: str, reader: Reader, vocabulary: ClassificationVocabulary, sentences: int, limit: int | None, path: Path
) -> dict[str, Any]:
    """Streams one split into its stores and returns its statistics."""
    size = len(vocabulary.words)
    numbers = range(1, sentences + 1)
    sides = [SideStatistics(size) for _ in numbers]
    index = {label: number for number, label in enumerate(vocabulary.labels)}
    left_out: Counter[str] = Counter()
    labels: list[int] = []
    with progress(f"encoding {split}", None, "items") as advance, ExitStack() as stack:
        writers = [
            stack.enter_context(TokenStoreWriter(path / f"sentence-{number}", vocabulary_size=size))
            for number in numbers
        ]
        for item in reader():
            if isinstance(item, LeftOut):
                left_out[item.reason] += item.items
                continue
            encoded = [vocabulary.encode(text) for text in item.sentences]
            if limit is not None and max(map(len, encoded)) > limit:
                left_out[f"more than {limit} words"] += 1
                continue
            for writer, side, ids in zip(writers, sides, encoded, strict=True):
                writer.append(ids)
                side.add(ids)
            labels.append(index[item.label])
            advance(1)
    np.save(path / "labels.npy", np.array(labels, dtype=np.int64), allow_pickle=False)
    for reason, count in left_out.items():
        note(f"{split}: {count:,} items left out: {reason}")
    names = ("first", "second") if sentences > 1 else ("sentence",)
    counts = Counter(labels)
    return {
        "items": len(labels),
        "left_out": dict(left_out),
        "labels": {label: counts[number] for number, label in enumerate(vocabulary.labels)},
        **{name: side.as_dict(len(labels)) for name, side in zip(names, sides, strict=True)},
    }
