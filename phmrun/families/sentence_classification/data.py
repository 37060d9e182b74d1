"""Labeled sentences or sentence pairs as training batches."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset

from phmrun.engine.data import BucketedData
from phmrun.errors import data_error
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
from phmrun.families.sentence_classification.vectors import Found, open_vectors
from phmrun.files import sha256_of
from phmrun.models.model_folder import class_order, folder_checksum, folder_tokenizer, read_settings
from phmrun.models.sentences import Sentences, batch_of
from phmrun.text.batches import Batch
from phmrun.text.store import Prepared
from phmrun.text.vocabulary import SPECIALS

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

    def adopt(self, other: "ClassificationData", name: str) -> None:  # type: ignore[override]
        """Take the test set of another module as a split, with the settings of its reading."""
        super().adopt(other, name)
        self.corpus = replace(self.corpus, reading=other.corpus.reading)

    def fingerprints(self) -> dict[str, str]:
        """Return SHA-256 sums by their names in the run id.

        Those of the file of vectors and of the model's folder are included, and the numbers that the classes have in
        the folder, if it numbers them in another order.
        """
        vectors = {} if self.vectors is None else {"vectors": sha256_of(self.vectors)}
        model = {} if self.model is None else {"model": folder_checksum(self.model)}
        if self.model is not None:
            order = class_order(read_settings(self.model), self.config.labels)
            model |= {"classes": str(order)} if order != sorted(order) else {}
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
            raise data_error(what, self.vectors, hint)
        vectors = stored.find(self.vocabulary.words.tokens[len(SPECIALS) :])
        return Found(vectors.places + len(SPECIALS), vectors.vectors)

    def statistics(self) -> dict[str, Any]:
        """Return items, labels and words by split, and vocabulary sizes.

        With a file of vectors, also its name, and the shares, 0 to 1, of words and tokens that have one: "types" of the
        vocabulary without special tokens, and "<split>_tokens".
        """
        if self.vectors is None:
            return super().statistics()
        covered = np.zeros(len(self.vocabulary.words), dtype=bool)
        covered[cast(Found, self.pretrained).places] = True
        words = max(1, self.vocabulary.words.entries - len(SPECIALS))
        tokens = {
            f"{split}_tokens": float(np.mean(covered[np.concatenate([side.tokens for side in store.sentences])]))
            for split, store in self.prepared.stores.items()
        }
        vectors = {"file": self.vectors.name, "types": int(covered.sum()) / words, **tokens}
        return {**super().statistics(), "vectors": vectors}

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
