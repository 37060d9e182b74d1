"""Labeled sentences or sentence pairs as training batches, and pretrained word vectors.

A file of vectors has words and numbers separated by single spaces. It is read once and cached by its content, as a list
of words and a memory-mapped array. A first line of two integers (number of words and width), as in word2vec and
fastText, is skipped.
"""

import io
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from phmrun.engine.data import BucketedData
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sentence_classification.config import ClassificationExperiment
from phmrun.families.sentence_classification.items import (
    DEV,
    TRAIN,
    ClassificationVocabulary,
    Item,
    ItemStore,
    Reader,
    divided,
    prepare_items,
)
from phmrun.files import intact, open_regular, sha256_of
from phmrun.models.hugging_face import folder_checksum, folder_tokenizer
from phmrun.models.sentences import Sentences, batch_of
from phmrun.progress import progress
from phmrun.text.batches import Batch
from phmrun.text.lines import malformed, numbered_lines
from phmrun.text.store import Prepared, build_once
from phmrun.text.vocabulary import SPECIALS

VERSION = 1  # increase when the same file results in other contents
STEP = 2048  # lines between two progress updates

Vectors = NDArray[np.float32]


class Found(NamedTuple):
    """Vectors of those words that have one."""

    places: NDArray[np.int64]  # indices of the words, `[found]`
    vectors: Vectors  # `[found, width]`


@dataclass(frozen=True)
class WordVectors:
    """Word vectors on disk."""

    path: Path  # directory in the cache
    words: int  # number of words
    width: int  # numbers of a vector

    def find(self, words: Sequence[str]) -> Found:
        """Return the vectors of those words that have one.

        A word without a vector gets that of the word in lower case. If a word occurs twice in the file, its first
        vector is used. Places are in ascending order. Words without any vector are left out.
        """
        wanted = set(words) | {word.lower() for word in words}
        rows: dict[str, int] = {}
        words_file = open_regular(self.path / "words.txt", most=sys.maxsize)
        with io.TextIOWrapper(words_file, encoding="utf-8", newline="\n") as lines:
            for row, line in enumerate(lines):
                word = line[:-1]
                if word in wanted:
                    rows.setdefault(word, row)
        matches = [(place, rows.get(word, rows.get(word.lower()))) for place, word in enumerate(words)]
        places = np.array([place for place, row in matches if row is not None], dtype=np.int64)
        chosen = np.array([row for _, row in matches if row is not None], dtype=np.int64)
        stored = np.memmap(self.path / "vectors.bin", dtype="<f4", mode="r", shape=(self.words, self.width))
        return Found(places, np.asarray(stored[chosen], dtype=np.float32))


def open_vectors(path: Path, cache: Path) -> WordVectors:
    """Return the vectors of a file (UTF-8, plain or gzip).

    They are converted into ``cache`` unless a file of the same content has been.

    Raises:
        PhmrunError: (exit 3) The file is missing or damaged, a line has a different width than the first, or a value
            is not a finite number. The error names file and line.
    """
    content = {"vectors": VERSION, "sha256": path}
    place, description = build_once(cache, content, lambda directory: _convert(path, directory), "vectors.json")
    with intact("the prepared vectors are", place, "Remove the directory; it is made again."):
        vectors = WordVectors(place, int(description["words"]), int(description["width"]))
        if (place / "vectors.bin").stat().st_size != 4 * vectors.words * vectors.width:
            raise ValueError("vectors.bin has another size than it says")
    return vectors


def _convert(path: Path, directory: Path) -> dict[str, int]:
    """Convert the text file to ``words.txt`` and ``vectors.bin`` in ``directory``.

    A first line of two whole numbers is a header and skipped. The first vector decides the width. Words are one a line,
    vectors 4-byte floats in the same order; repeated words are kept. Progress is shown.

    Returns:
        ``words``, the number of words, and ``width``.

    Raises:
        PhmrunError: (exit 3) The file is malformed or has no vector.
    """
    count = width = 0
    with (
        progress(f"reading {path.name}", None, "words") as advance,
        (directory / "words.txt").open("w", encoding="utf-8", newline="\n") as words,
        (directory / "vectors.bin").open("wb") as numbers,
    ):
        lines = numbered_lines(path)
        first = next(lines)
        cells = first[1].split()
        if not (len(cells) == 2 and all(cell.isdecimal() for cell in cells)):  # no header
            lines = chain([first], lines)
        for number, line in lines:
            width = width or line.rstrip().count(" ")
            word, vector = _divided(line, width, f"{path}:{number}")
            words.write(f"{word}\n")
            vector.astype("<f4").tofile(numbers)
            count += 1
            if count % STEP == 0:
                advance(STEP)
    if not count:
        raise malformed("there is no vector in the file", str(path))
    return {"words": count, "width": width}


def _divided(line: str, width: int, where: str) -> tuple[str, Vectors]:
    """Return a line's word, which may contain spaces, and its numbers, ``[width]``.

    The numbers are the last ``width`` cells between single spaces. White space at the line's end is dropped.

    Raises:
        PhmrunError: (exit 3) The line is no word with ``width`` finite numbers of single precision.
    """
    word, *cells = line.rstrip().rsplit(" ", width)
    word = word if line.count(" ") == width else word.strip()
    try:
        vector = np.array([float(cell) for cell in cells])
    except ValueError as error:
        raise malformed(f"the line is not a word and its numbers: {error}", where) from error
    if not word or len(vector) != max(width, 1) or not (abs(vector) <= np.finfo(np.float32).max).all():
        raise malformed(f"the line is not a word and {max(width, 1)} finite numbers of single precision", where)
    return word, vector.astype(np.float32)


Baseline = Callable[[Sequence[Item]], list[str]]  # labels items without a model and without their gold labels


@dataclass(frozen=True)
class ClassificationCorpus:
    """Corpus of labeled sentences on this machine.

    Attributes:
        readers: Readers by split; "train" and "dev" are required.
        paths: Files that are read, by name.
        fingerprints: Checksums that identify the data.
        reading: Further settings that the items depend on, by name; part of every score's signature.
        baselines: Baselines without a model, by name.
        whole: True if each split is read from its own file, False if from all files.
    """

    readers: Mapping[str, Reader]
    paths: Mapping[str, Path]
    fingerprints: Mapping[str, str]
    reading: Mapping[str, str] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)
    whole: bool = True


class ClassificationBatch(NamedTuple):
    """Batch of labeled sentences.

    Attributes:
        sentences: First sentences of the items, then the second sentences of pairs.
        labels: Indices of the classes, ``[batch]``.
        units: Number of items.
        window_units: Items in the whole accumulation window, over all processes.
    """

    sentences: tuple[Sentences, ...]
    labels: Tensor
    units: int
    window_units: int


@dataclass(frozen=True)
class ClassificationBatches(Dataset[ClassificationBatch]):
    """Dataset that converts a :class:`Batch` of item numbers to tensors."""

    store: ItemStore

    def __getitem__(self, batch: Batch) -> ClassificationBatch:
        """Return the items of a batch, padded to the longest sentence."""
        numbers = batch.indices.tolist()
        sentences = tuple(batch_of([side[number] for number in numbers]) for side in self.store.sentences)
        labels = torch.from_numpy(self.store.labels[batch.indices])
        return ClassificationBatch(sentences, labels, len(numbers), batch.window_units)


class ClassificationData(BucketedData[ClassificationVocabulary]):
    """Data module of labeled sentences, encoded once and read from memory-mapped stores.

    With ``data.hold_out``, that share of the training items, rounded to 1–99 percent, becomes the validation set and
    replaces the corpus's own. Items are divided by their first sentence; see :func:`divided`.

    Args:
        config: Resolved config.
        corpus: Corpus to read.
        cache: Directory of prepared data.
        vectors: File of pretrained word vectors, or None.
        vector_width: Required width of the vectors; None: any.
    """

    config: ClassificationExperiment

    def __init__(
        self,
        config: ClassificationExperiment,
        corpus: ClassificationCorpus,
        cache: Path,
        *,
        vectors: Path | None = None,
        vector_width: int | None = None,
    ) -> None:
        readers = corpus.readers
        if config.data.hold_out:
            held = min(99, max(1, round(100 * config.data.hold_out)))
            readers = {**readers, **divided(readers[TRAIN], {TRAIN: 100 - held, DEV: held})}
        super().__init__(config, readers, corpus.fingerprints)
        self.corpus, self.cache = corpus, cache
        self.model: Path | None = getattr(config.model, "path", None)  # its tokens replace the words
        self.vectors, self.vector_width = vectors, vector_width

    def sources(self, split: str) -> Sequence[Path]:
        """Return the files that a split is read from: its own, else all."""
        paths = self.corpus.paths
        split = TRAIN if split == DEV and self.config.data.hold_out else split
        return [paths[split]] if self.corpus.whole and split in paths else list(paths.values())

    def fingerprints(self) -> dict[str, str]:
        """Return SHA-256 sums by their names in the run id.

        Those of the file of vectors and of the model's folder are included.
        """
        vectors = {} if self.vectors is None else {"vectors": sha256_of(self.vectors)}
        model = {} if self.model is None else {"model": folder_checksum(self.model)}
        return {**super().fingerprints(), **vectors, **model}

    @cached_property
    def prepared(self) -> Prepared[ClassificationVocabulary, ItemStore]:
        """Encoded training and validation items, prepared on first use."""
        readers = {split: self.files[split] for split in (TRAIN, DEV)}
        tokenizer = None if self.model is None else folder_tokenizer(self.model, self.config.sizes[0])
        sources, reading = self.corpus.paths.values(), self.corpus.reading
        return prepare_items(readers, sources, self.config, reading, self.cache, tokenizer)

    @cached_property
    def pretrained(self) -> Found | None:
        """Pretrained vectors of the vocabulary's words by id.

        None without a file.

        Raises:
            PhmrunError: (exit 3) The file is missing or malformed, or the vectors do not have the network's width.
        """
        if self.vectors is None:
            return None
        stored = open_vectors(self.vectors, self.cache)
        if self.vector_width not in (None, stored.width):
            what = f"the vectors have {stored.width} numbers, but the words of the network {self.vector_width}"
            hint = f"Add --embedding projective --set embedding.width={stored.width}: a linear map then brings them "
            hint += "to the network's width."
            raise PhmrunError(what, where=str(self.vectors), hint=hint, code=ExitCode.DATA)
        vectors = stored.find(self.vocabulary.words.tokens[len(SPECIALS) :])
        return Found(vectors.places + len(SPECIALS), vectors.vectors)

    @property
    def coverage(self) -> dict[str, float]:
        """Shares, 0 to 1, of words and tokens with a pretrained vector.

        Keys: "types" for the vocabulary without special tokens, and "<split>_tokens". All are 0 without a file of
        vectors.
        """
        covered = np.zeros(len(self.vocabulary.words), dtype=bool)
        if self.pretrained is not None:
            covered[self.pretrained.places] = True
        words = max(1, self.vocabulary.words.entries - len(SPECIALS))
        tokens = {
            f"{split}_tokens": float(np.mean(covered[np.concatenate([side.flat for side in store.sentences])]))
            for split, store in self.prepared.stores.items()
        }
        return {"types": int(covered.sum()) / words, **tokens}

    def statistics(self) -> dict[str, Any]:
        """Return items, labels and words by split, and vocabulary sizes.

        With a file of vectors, also its name and coverage.
        """
        vectors = {} if self.vectors is None else {"vectors": {"file": self.vectors.name, **self.coverage}}
        return {**super().statistics(), **vectors}

    def batches(self, split: str) -> ClassificationBatches:
        """Return the dataset of a split."""
        return ClassificationBatches(self.prepared.stores[split])

    def lengths(self, split: str) -> tuple[ArrayLike, ...]:
        """Return the tokens of each item, ``[items]``, of its sentences in order."""
        return tuple(side.lengths for side in self.prepared.stores[split].sentences)

    def weights(self) -> ArrayLike:
        """Return 1 for each training item, ``[items]``.

        So items and not tokens are averaged.
        """
        return np.ones(len(self.prepared.stores[TRAIN]))

    def inputs(self, split: str) -> Iterator[str]:
        """Yield the items of a split as lines, sentences separated by tabs.

        Items that the reader skips are left out. They are read from the corpus, not from the stores.
        """
        return ("\t".join(item.sentences) for item in self.files[split]() if isinstance(item, Item))
