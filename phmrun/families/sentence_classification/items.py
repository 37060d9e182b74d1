"""Labeled items: readers, encoded items on disk, and correctness of the labels of a finished run.

Prepared items are in ``cache/<hash>/``: ``vocabulary/``, and for each split a token store per sentence of an item
(``sentence-1/``, ``sentence-2/``) and ``labels.npy``.
"""

import hashlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from phmrun.documents import parse_json
from phmrun.engine.data import contents
from phmrun.errors import counted, data_error
from phmrun.families.sentence_classification.config import ClassificationExperiment, WordsConfig
from phmrun.files import intact, open_regular, read_text, write_json
from phmrun.ledger import Run
from phmrun.metrics.items import Items, checksum
from phmrun.progress import note, progress
from phmrun.text.store import REMOVE, TRAIN, Prepared, TokenStore, TokenStoreWriter, prepare
from phmrun.text.tokenizer import TokenizerVocabulary, learn_bpe
from phmrun.text.vocabulary import Vocabulary, WordVocabulary, read_description, train_words
from phmrun.text.words import Splitting, spaced


class ClassificationVocabulary:
    """Vocabulary of words, or of a tokenizer's tokens, and, in the order of their indices, classes.

    Sentences are lowercased and split as in :class:`~phmrun.families.sentence_classification.config.WordsConfig`; a
    tokenizer reads them as they are.
    """

    def __init__(
        self, words: Vocabulary, labels: Sequence[str], *, lowercase: bool = False, splitting: Splitting = "space"
    ) -> None:
        self.words = words
        self.labels = tuple(labels)
        self.lowercase = lowercase
        self.splitting: Splitting = splitting

    @property
    def sizes(self) -> tuple[int, int]:
        """Rows of an embedding, and number of classes."""
        return len(self.words), len(self.labels)

    def encode(self, sentence: str) -> list[int]:
        """Return the ids of a sentence's words, without beginning and end tokens."""
        if isinstance(self.words, TokenizerVocabulary):
            return self.words.encode(sentence)
        return self.words.encode(spaced(sentence, self.lowercase, self.splitting))

    def save(self, directory: Path) -> None:
        """Write ``words/`` and ``labels.json`` to ``directory``."""
        self.words.save(directory / "words")
        description = {"labels": list(self.labels), "lowercase": self.lowercase, "splitting": self.splitting}
        write_json(directory / "labels.json", description)

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Load a vocabulary written by :meth:`save`.

        Raises:
            PhmrunError: (exit 3) The vocabulary is missing or damaged.
        """
        path = directory / "labels.json"
        with intact("the vocabulary is", path):
            stored = parse_json(read_text(path))
            labels, lowercase, splitting = stored["labels"], stored["lowercase"], stored["splitting"]
        kind = read_description(directory / "words", (*WordVocabulary.kinds, *TokenizerVocabulary.kinds))["kind"]
        reader: type[Vocabulary] = TokenizerVocabulary if kind in TokenizerVocabulary.kinds else WordVocabulary
        return cls(reader.load(directory / "words"), labels, lowercase=lowercase, splitting=splitting)


VERSION = 1  # increase when the same text and settings result in other ids or another layout
DEV = "dev"
GOLD = ("label", "part")
"""Columns of the predictions that hold gold labels and parts."""


class Item(NamedTuple):
    """Labeled item.

    Attributes:
        sentences: A sentence, or the two sentences of a pair.
        label: Class.
        part: Part of the split that is also scored separately; empty: none.
    """

    sentences: tuple[str, ...]
    label: str
    part: str = ""


class LeftOut(NamedTuple):
    """Items that a reader skips."""

    reason: str  # such as "no gold label"
    items: int = 1  # number of items


Reader = Callable[[], Iterable[Item | LeftOut]]  # reads a split from its start


class ItemStore:
    """Encoded items of a split, in a directory.

    Args:
        path: Directory of the split.
        sentences: Sentences per item.

    Raises:
        PhmrunError: (exit 3) The directory does not contain a complete store.
    """

    def __init__(self, path: Path, sentences: int) -> None:
        self.path = path
        self.sentences = [TokenStore(path / f"sentence-{number}") for number in range(1, sentences + 1)]
        with intact("the labels are", path, REMOVE):
            open_regular(path / "labels.npy", most=sys.maxsize).close()
            self.labels: NDArray[np.int64] = np.load(path / "labels.npy", mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self.labels)

    def __reduce__(self) -> tuple[type["ItemStore"], tuple[Path, int]]:
        """Return the path, so that loader processes map the files themselves."""
        return ItemStore, (self.path, len(self.sentences))


def prepare_items(
    readers: Mapping[str, Reader],
    sources: Iterable[Path],
    config: ClassificationExperiment,
    reading: Mapping[str, Any],
    cache: Path,
    tokenizer: TokenizerVocabulary | None = None,
) -> Prepared[ClassificationVocabulary, ItemStore]:
    """Learn the vocabulary and encode all splits, or load them from the cache.

    The result's statistics of the vocabulary are size, entries, requested and labels. Training items with a sentence of
    more words than ``data.max_length`` are left out and counted; other splits keep all.

    Args:
        readers: Readers by split, including "train".
        sources: Files that are read; their contents identify the result.
        config: Config with labels, names of sentences, and the section ``data``.
        reading: Further settings that the items depend on, as JSON values.
        cache: Directory of prepared data.
        tokenizer: Tokens in place of the training text's words.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed, or a split has no items.
    """
    data, sentences = config.data, len(config.names)
    content = {
        "version": VERSION,
        "sources": list(sources),
        "reading": dict(reading),
        # the order determines the indices of the classes
        "labels": list(config.labels),
        "words": data.vocabulary.model_dump(exclude={"kind"} if data.vocabulary.kind == "word" else None),
        "max_length": data.max_length,
        "splits": sorted(readers),
        **({"hold_out": data.hold_out} if data.hold_out else {}),
        **({} if tokenizer is None else {"tokenizer": contents(tokenizer)}),
    }

    def learn() -> ClassificationVocabulary:
        """Return the vocabulary: of the tokenizer, else of the training split's words."""
        if tokenizer is not None:
            return ClassificationVocabulary(tokenizer, config.labels)
        return _learn(readers[TRAIN], config.labels, data.vocabulary)

    def encode(split: str, vocabulary: ClassificationVocabulary, path: Path) -> dict[str, Any]:
        """Write a split's stores below ``path``, and return its statistics."""
        limit = data.max_length if split == TRAIN else None
        return _encode(split, readers[split], vocabulary, sentences, limit, path)

    return prepare(
        cache,
        content,
        readers,
        learn=learn,
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


def _learn(reader: Reader, labels: Sequence[str], settings: WordsConfig) -> ClassificationVocabulary:
    """Return the vocabulary of the training split's sentences.

    Items that the reader skips are left out.
    """

    def lines() -> Iterator[str]:
        """Yield the sentences of all items."""
        with progress("reading text for the vocabulary", None, "items") as advance:
            for item in reader():
                if isinstance(item, Item):
                    yield from item.sentences
                    advance(1)

    if settings.kind == "bpe":
        tokenizer = learn_bpe(lines(), size=settings.size, multiple_of=settings.multiple_of)
        tokenizer.mark_ends()
        return ClassificationVocabulary(tokenizer, labels)
    read = (spaced(text, settings.lowercase, settings.splitting) for text in lines())
    words = train_words(
        read, size=settings.size, multiple_of=settings.multiple_of, min_frequency=settings.min_frequency
    )
    return ClassificationVocabulary(words, labels, lowercase=settings.lowercase, splitting=settings.splitting)


def _encode(
    split: str, reader: Reader, vocabulary: ClassificationVocabulary, sentences: int, limit: int | None, path: Path
) -> dict[str, Any]:
    """Write a split to its stores, item by item.

    Items with a sentence of more than ``limit`` words are left out; None: none. Notes count them, and those that the
    reader skips, by reason. Return statistics: "items", "left_out" by reason, "labels" (items by label), and those of
    the tokens as "sentence", or as "first" and "second".

    Raises:
        PhmrunError: (exit 3) No item is left.
    """
    index = {label: number for number, label in enumerate(vocabulary.labels)}
    left_out: Counter[str] = Counter()
    labels: list[int] = []
    sizes = {"vocabulary_size": len(vocabulary.words), "unknown": vocabulary.words.unknown}
    with progress(f"encoding {split}", None, "items") as advance, ExitStack() as stack:
        writers = [
            stack.enter_context(TokenStoreWriter(path / f"sentence-{number}", **sizes))
            for number in range(1, sentences + 1)
        ]
        for item in labeled(reader(), left_out):
            # Encode and measure all sentences of an item before writing, so that item k has index k in every store.
            encoded = [vocabulary.encode(text) for text in item.sentences]
            if limit is not None and max(map(len, encoded)) > limit:
                left_out[f"more than {counted(limit, 'word')}"] += 1
                continue
            for writer, ids in zip(writers, encoded, strict=True):
                writer.append(ids)
            labels.append(index[item.label])
            advance(1)
    for reason, count in left_out.items():
        note(f"{split}: {counted(count, 'item')} left out: {reason}")
    if not labels:
        hint = "Choose a larger data.hold_out, or name a file." if limit is None else "Choose a larger data.max_length."
        raise data_error(f"there is no item in {split!r}", None, hint)
    np.save(path / "labels.npy", np.array(labels, dtype=np.int64), allow_pickle=False)
    names = ("first", "second") if sentences > 1 else ("sentence",)
    counts = Counter(labels)
    return {
        "items": len(labels),
        "left_out": dict(left_out),
        "labels": {label: counts[number] for number, label in enumerate(vocabulary.labels)},
        **{name: writer.statistics() for name, writer in zip(names, writers, strict=True)},
    }


def labeled(items: Iterable[Item | LeftOut], left_out: Counter[str]) -> Iterator[Item]:
    """Yield the items; add those left out to ``left_out`` by reason, in place."""
    for item in items:
        if isinstance(item, LeftOut):
            left_out[item.reason] += item.items
        else:
            yield item


def divided(reader: Reader, shares: Mapping[str, int], *, without: Iterable[Reader] = ()) -> dict[str, Reader]:
    """Return a reader for each split of a divided file.

    The split of an item depends only on the text of its first sentence. It is the same for any order of the file, on
    every machine, and for all items that share the sentence. The splits take consecutive ranges of :func:`hundredth` in
    the order of ``shares``.

    Args:
        reader: Reader of the file.
        shares: Share of the items by split, in percent; the sum must be 100.
        without: Readers of items to exclude from all splits; excluded items are counted as left out.
    """
    ends = dict(zip(shares, accumulate(shares.values()), strict=True))
    ranges = {split: range(end - shares[split], end) for split, end in ends.items()}
    return {split: partial(_share, reader, wanted, tuple(without)) for split, wanted in ranges.items()}


def in_parts(reader: Reader, parts: Path) -> Iterator[Item | LeftOut]:
    """Yield the items with their parts.

    The file ``parts`` has the names in the items' order, separated by white space. Skipped items have no name in the
    file, and are yielded unchanged. Further names are ignored.
    """
    names = iter(read_text(parts).split())
    return (item._replace(part=next(names)) if isinstance(item, Item) else item for item in reader())


def hundredth(sentence: str) -> int:
    """Return the first 64 bits of the text's SHA-256 modulo 100."""
    return int.from_bytes(hashlib.sha256(sentence.encode()).digest()[:8], "big") % 100


def _share(reader: Reader, wanted: range, without: tuple[Reader, ...]) -> Iterator[Item | LeftOut]:
    """Yield the items whose :func:`hundredth` is in ``wanted``, without doubles.

    An item is a double if an item of ``without`` has the same sentences. One :class:`LeftOut` at the end counts them,
    if there are any. What the reader itself skips is yielded if ``wanted`` begins at 0.
    """
    elsewhere = {item.sentences for other in without for item in other() if isinstance(item, Item)}
    doubled = 0
    for item in reader():
        if isinstance(item, LeftOut):
            if wanted.start == 0:  # report items left out of the file itself for the first split only
                yield item
        elif hundredth(item.sentences[0]) in wanted:
            if item.sentences in elsewhere:
                doubled += 1
            else:
                yield item
    if doubled:
        yield LeftOut("also in a test file", doubled)


def read_items(run: Run, split: str, part: str, mark: Sequence[str] = GOLD) -> Items:
    """Return correctness counts of a split's labeled items, or of a part of it.

    Counts are ``[items, 2]``: 1 if the label is correct, else 0, and 1. ``part`` of "" is the whole split. Predictions
    come from the run's directory. The checksum covers the columns ``mark``; gold labels and parts alone do not identify
    the items, so that the split's fingerprint is added to theirs.
    """
    lines = [line.split("\t") for line in read_text(run.predictions / f"{split}.tsv").splitlines()]
    predicted, gold, parts, *marks = (lines[0].index(name) for name in ("predicted", "label", "part", *mark))
    rows = [row for row in lines[1:] if not part or row[parts] == part]
    counts = np.ones((len(rows), 2))
    counts[:, 0] = [row[predicted] == row[gold] for row in rows]
    file = run.fingerprints().get(split, "") if mark == GOLD else ""
    return Items(counts, checksum(["\t".join(row[place] for place in marks) for row in rows]), file)
