"""Sentences with a label: what an item is, and many of them as numbers on disk, made once per content.

The result lies in ``cache/<hash>/``: ``vocabulary/``, and by split a token store per sentence of an item
(``sentence-1/``, ``sentence-2/``) and ``labels.npy``.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sentence_classification.vocabulary import ClassificationVocabulary, WordSettings
from phmrun.files import intact
from phmrun.progress import note, progress
from phmrun.text.store import REMOVE, TRAIN, Prepared, TokenStore, TokenStoreWriter, prepare
from phmrun.text.vocabulary import spaced, train_words

VERSION = 1  # raised whenever the same text and settings would give other ids or another layout
DEV = "dev"


class Item(NamedTuple):
    """What is classified."""

    sentences: tuple[str, ...]  # one sentence, or two that are compared
    label: str  # its class
    part: str = ""  # the part of its split that is scored by itself, too; empty: none


class LeftOut(NamedTuple):
    """Items that a reader passes over."""

    reason: str  # why: "no gold label"
    items: int = 1  # how many


Reader = Callable[[], Iterable[Item | LeftOut]]  # reads a split from its start


class ItemStore:
    """The encoded items of one split, of so many sentences each, in a directory.

    Raises:
        PhmrunError: (exit 3) The directory holds no complete store.
    """

    def __init__(self, path: Path, sentences: int) -> None:
        self.path = path
        self.sentences = [TokenStore(path / f"sentence-{number}") for number in range(1, sentences + 1)]
        with intact("the labels are", path, REMOVE):
            self.labels: NDArray[np.int64] = np.load(path / "labels.npy", mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self.labels)

    def __reduce__(self) -> tuple[type["ItemStore"], tuple[Path, int]]:
        """Loader processes get the path and map the files themselves."""
        return ItemStore, (self.path, len(self.sentences))


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
) -> Prepared[ClassificationVocabulary, ItemStore]:
    """Learns the vocabulary from, and encodes, a training and a validation split; or finds it done in the cache.

    ``readers`` read the splits, "train" among them, from ``sources``, whose contents name the result; ``reading``
    (JSON) is what else they depend on. Training items with a sentence of more than ``max_length`` words are left out
    and counted; other splits keep all.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed, or a split has no items.
    """
    content = {
        "version": VERSION,
        "sources": list(sources),
        "reading": dict(reading),
        # in their order, which numbers the classes
        "labels": list(labels),
        "words": vars(words),
        "max_length": max_length,
        "splits": sorted(readers),
    }

    def encode(split: str, vocabulary: ClassificationVocabulary, path: Path) -> dict[str, Any]:
        return _encode(split, readers[split], vocabulary, sentences, max_length if split == TRAIN else None, path)

    return prepare(
        cache,
        content,
        readers,
        learn=lambda: _learn(readers[TRAIN], labels, words),
        encode=encode,
        describe=lambda vocabulary: {
            "size": len(vocabulary.words),
            "entries": vocabulary.words.entries,
            "requested": vocabulary.words.requested,
            "labels": len(vocabulary.labels),
        },
        kind=ClassificationVocabulary,
        store=partial(ItemStore, sentences=sentences),
    )


def _learn(reader: Reader, labels: Sequence[str], settings: WordSettings) -> ClassificationVocabulary:
    """The vocabulary of the training split."""

    def lines() -> Iterator[str]:
        with progress("reading text for the vocabulary", None, "items") as advance:
            for item in reader():
                if isinstance(item, Item):
                    yield from (spaced(text, settings.lowercase, settings.splitting) for text in item.sentences)
                    advance(1)

    words = train_words(
        lines(), size=settings.size, multiple_of=settings.multiple_of, min_frequency=settings.min_frequency
    )
    return ClassificationVocabulary(words, labels, lowercase=settings.lowercase, splitting=settings.splitting)


def _encode(
    split: str, reader: Reader, vocabulary: ClassificationVocabulary, sentences: int, limit: int | None, path: Path
) -> dict[str, Any]:
    """Streams one split into its stores and returns its statistics."""
    index = {label: number for number, label in enumerate(vocabulary.labels)}
    left_out: Counter[str] = Counter()
    labels: list[int] = []
    with progress(f"encoding {split}", None, "items") as advance, ExitStack() as stack:
        writers = [
            stack.enter_context(TokenStoreWriter(path / f"sentence-{number}", vocabulary_size=len(vocabulary.words)))
            for number in range(1, sentences + 1)
        ]
        for item in reader():
            if isinstance(item, LeftOut):
                left_out[item.reason] += item.items
                continue
            # All sentences of an item are encoded and measured before the first is written, so that item k stays at
            # place k in every store and among the labels.
            encoded = [vocabulary.encode(text) for text in item.sentences]
            if limit is not None and max(map(len, encoded)) > limit:
                left_out[f"more than {limit} words"] += 1
                continue
            for writer, ids in zip(writers, encoded, strict=True):
                writer.append(ids)
            labels.append(index[item.label])
            advance(1)
    if not labels:
        raise PhmrunError(f"there is no item in {split!r}", hint="See data.max_length.", code=ExitCode.DATA)
    np.save(path / "labels.npy", np.array(labels, dtype=np.int64), allow_pickle=False)
    for reason, count in left_out.items():
        note(f"{split}: {count:,} items left out: {reason}")
    names = ("first", "second") if sentences > 1 else ("sentence",)
    counts = Counter(labels)
    return {
        "items": len(labels),
        "left_out": dict(left_out),
        "labels": {label: counts[number] for number, label in enumerate(vocabulary.labels)},
        **{name: writer.statistics() for name, writer in zip(names, writers, strict=True)},
    }


def divided(reader: Reader, shares: Mapping[str, int], *, without: Iterable[Reader] = ()) -> dict[str, Reader]:
    """Readers of the splits of one file, for data whose training file is not at hand.

    Which split an item belongs to depends on the text of its first sentence alone: the same in every order of the file,
    on every machine, and for all items that share the sentence.

    Args:
        reader: Reads the file.
        shares: By split its share of the items in per cent, 100 in all.
        without: Readers of items that must not occur in any of the splits; what is left out of each is counted.

    Raises:
        ValueError: The shares are not 100 in all.
    """
    if sum(shares.values()) != 100:
        raise ValueError(f"shares of {dict(shares)} per cent are not 100 in all")
    readers: dict[str, Reader] = {}
    start = 0
    for split, share in shares.items():
        readers[split] = partial(_share, reader, range(start, start + share), tuple(without))
        start += share
    return readers


def in_parts(reader: Reader, parts: Path) -> Iterator[Item | LeftOut]:
    """The items, each of the part that a file names in its place."""
    names = iter(parts.read_text(encoding="utf-8").split())
    return (item._replace(part=next(names)) if isinstance(item, Item) else item for item in reader())


def hundredth(sentence: str) -> int:
    """A number from 0 to 99 that depends on a text alone."""
    return int.from_bytes(hashlib.sha256(sentence.encode()).digest()[:8], "big") % 100


def _share(reader: Reader, wanted: range, without: tuple[Reader, ...]) -> Iterator[Item | LeftOut]:
    """The items whose number is wanted, and how many of these occur elsewhere."""
    elsewhere = {item.sentences for other in without for item in other() if isinstance(item, Item)}
    doubled = 0
    for item in reader():
        if isinstance(item, LeftOut):
            if wanted.start == 0:  # what the file itself leaves out is told once
                yield item
        elif hundredth(item.sentences[0]) in wanted:
            if item.sentences in elsewhere:
                doubled += 1
            else:
                yield item
    if doubled:
        yield LeftOut("also in a test file", doubled)
