"""Sentence pairs from built-in corpora, datasets or user files, and training batches."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.utils.data import Dataset

from phmrun.config.sections import NO_DATA
from phmrun.datasets import SPLITS, checksums, locate
from phmrun.datasets import builtin as corpora
from phmrun.engine.data import BucketedData
from phmrun.errors import PhmrunError, data_error
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig, SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.preparation import prepare_parallel
from phmrun.files import sha256_of
from phmrun.metrics import Score, bleu_obstacle
from phmrun.models.sentences import batch_of
from phmrun.text.batches import Batch
from phmrun.text.division import held_out, without_empty
from phmrun.text.lines import read_parallel
from phmrun.text.store import ParallelStore, Prepared
from phmrun.text.vocabularies import Vocabularies
from phmrun.text.vocabulary import BOS, EOS, PAD

LOG = logging.getLogger("phmrun.engine")

REFERENCES = 1000
"""Validation references by which the fit of BLEU's tokenizer is judged before training."""
SIDES = ("source", "target")
Files = dict[str, tuple[Path, Path]]
"""(source, target) by split."""
Baseline = Callable[[Sequence[str]], list[str]]
"""Function of source sentences that returns outputs without a model."""
OutputMeasure = Callable[[Sequence[str], Sequence[str]], Score]
"""Reference-free score of sources and outputs; left out if it raises a ModuleNotFoundError."""


class ParallelBatch(NamedTuple):
    """Batch of sentence pairs.

    Attributes:
        source: Source tokens with the end token, padded, ``[batch, source]``.
        mask: ``[batch, 1, 1, source]``, True at tokens; None without padding.
        target: The beginning token and the target tokens, padded, ``[batch, target]``.
        positions: Positions in the flattened ``target`` that predict a token, ``[units]``.
        wanted: Tokens to predict, including the end token, ``[units]``.
        units: Number of tokens to predict.
        window_units: Tokens to predict in the whole accumulation window, over all processes.
    """

    source: Tensor
    mask: Tensor | None
    target: Tensor
    positions: Tensor
    wanted: Tensor
    units: int
    window_units: int


class ParallelBatches(Dataset[ParallelBatch]):
    """Dataset that converts a :class:`Batch` of sentence numbers to tensors."""

    def __init__(self, store: ParallelStore) -> None:
        self.store = store

    def __getitem__(self, batch: Batch) -> ParallelBatch:
        """Return the sentence pairs of a batch, padded to the longest."""
        numbers, store = batch.indices.tolist(), self.store
        pairs = [store.source[number] for number in numbers], [store.target[number] for number in numbers]
        return parallel_batch(*pairs, batch.window_units)


def parallel_batch(
    sources: Sequence[NDArray[Any]], targets: Sequence[NDArray[Any]], window_units: int = 0
) -> ParallelBatch:
    """Return sentence pairs, token ids without begin and end, padded to the longest."""
    source = batch_of(sources)
    length = max(len(target) for target in targets) + 1
    shifted = np.full((len(targets), length), PAD, dtype=np.int64)
    wanted = np.full((len(targets), length), PAD, dtype=np.int64)
    for row, target in enumerate(targets):
        shifted[row, 0] = BOS
        shifted[row, 1 : len(target) + 1] = target
        wanted[row, : len(target)] = target
        wanted[row, len(target)] = EOS
    # PAD is 0, so nonzero entries are the tokens to predict; padding is not passed to the output map.
    positions = np.flatnonzero(wanted)
    return ParallelBatch(
        source.tokens,
        source.mask,
        torch.from_numpy(shifted),
        torch.from_numpy(positions),
        torch.from_numpy(wanted.reshape(-1)[positions]),
        len(positions),
        window_units,
    )


@dataclass(frozen=True)
class ParallelCorpus:
    """Corpus of sentence pairs on this machine.

    Attributes:
        files: (source, target) files by split: "train", "dev" and any test sets.
        fingerprints: SHA-256 sums that identify the text.
        parts: Files by split that name, line by line, the part of each pair.
    """

    files: Files
    fingerprints: Mapping[str, str]
    parts: Mapping[str, Path] = field(default_factory=dict)


class ParallelData(BucketedData[Vocabularies]):
    """Data module of sentence pairs, encoded once and read from memory-mapped stores.

    Vocabularies are loaded from ``data.vocabulary.path`` if it is set.

    Args:
        config: Resolved config.
        corpus: Corpus to read.
        cache: Directory of prepared corpora.
    """

    unit = "tokens"
    config: SequenceToSequenceExperiment

    def __init__(self, config: SequenceToSequenceExperiment, corpus: ParallelCorpus, cache: Path) -> None:
        path = config.data.vocabulary.path
        if path and not any((path / side).is_dir() for side in ("shared", "source")):
            hint = "The folder `vocabulary` of a run is one."
            raise data_error(f"{path} holds no vocabulary", "data.vocabulary.path", hint)
        self.given = Vocabularies.load(path) if path else None
        sides = {} if self.given is None else {"source": self.given.source, "target": self.given.target}
        sums = {f"vocabulary {side}": words.mark for side, words in sides.items()}
        super().__init__(config, corpus.files, {**corpus.fingerprints, **sums})
        self.parts, self.cache = corpus.parts, cache
        self.baselines: dict[str, Baseline] = {"copy": list}
        self.measures: dict[str, OutputMeasure] = {}

    @cached_property
    def prepared(self) -> Prepared[Vocabularies, ParallelStore]:
        """Encoded training and validation pairs, prepared on first use."""
        needed, data = {split: self.files[split] for split in ("train", "dev")}, self.config.data
        return prepare_parallel(
            needed, data.vocabulary, max_length=data.max_length, cache=self.cache, vocabularies=self.given
        )

    def prepare(self) -> None:
        """Prepare the data, and warn if BLEU does not fit the validation references.

        Raises:
            PhmrunError: (exit 2) Training chooses weights by BLEU, which does not fit.
        """
        super().prepare()
        references = [target for _, target in islice(read_parallel(*self.files["dev"]), REFERENCES)]
        if (obstacle := bleu_obstacle(self.config.tokenizer, references)) is None:
            return
        if self.config.training.monitor == "bleu":
            raise PhmrunError(f"there is no BLEU: {obstacle}", where="training.monitor", valid=["loss"])
        LOG.warning("chrF is used in place of BLEU: %s", obstacle)

    def batches(self, split: str) -> ParallelBatches:
        """Return the dataset of a split."""
        return ParallelBatches(self.prepared.stores[split])

    def lengths(self, split: str) -> tuple[ArrayLike, ArrayLike]:
        """Return the tokens of each pair, ``[pairs]``, of source and target, without end tokens."""
        store = self.prepared.stores[split]
        return store.source.lengths, store.target.lengths

    def inputs(self, split: str) -> Iterator[str]:
        """Yield the source sentences of a split; both files are read and checked.

        They come from the text files, not from the stores; empty lines raise.

        Raises:
            KeyError: There is no such split.
            PhmrunError: (exit 3) A file is missing or malformed, or they have different numbers of lines.
        """
        return (source for source, _ in read_parallel(*self.files[split]))


Builtin = Callable[[ParallelDataConfig, Path], ParallelCorpus]
"""Function that writes the task's built-in corpus to a cache directory, unless it is there."""


def build_parallel_data(config: SequenceToSequenceExperiment, cache: Path, builtin: Builtin) -> ParallelData:
    """Build the data module of an experiment.

    Pairs with an empty side are dropped if ``data.empty`` is "drop". Then ``data.hold_out``, if not 0, splits the
    training files into new training and validation files.

    Raises:
        PhmrunError: A file or dataset is not on this machine (exit 3), or lacks a language (exit 2).
    """
    pairs = corpus(config.data, cache, builtin)
    files = pairs.files
    if config.data.empty == "drop":
        files = {split: without_empty(pair, cache) for split, pair in files.items()}
    # Hold out after dropping empty pairs, so that the share refers to the remaining pairs.
    if config.data.hold_out:
        train, dev = held_out(files["train"], config.data.hold_out, cache)
        files = {**files, "train": train, "dev": dev}
    return ParallelData(config, replace(pairs, files=files), cache)


def corpus(data: ParallelDataConfig, cache: Path, builtin: Builtin) -> ParallelCorpus:
    """Return the corpus of a data section: built-in, user files or a dataset.

    The checksums of user files are computed here.

    Raises:
        PhmrunError: The run has no data, or they are not on this machine (exit 3); a language is missing (exit 2).
    """
    if data.name == NO_DATA:
        hint = (
            "Import it again, or train it further, with --prefix corpus/ (corpus/train.en, corpus/train.de …), or "
            "with --data NAME (`phmrun data list`)."
        )
        raise data_error("the run has no data: its checkpoint was imported without any", "data.name", hint)
    if data.name == "builtin":
        return builtin(data, cache)
    if data.name == "files":
        files = own_files(data)
        pairs = ((split, zip(SIDES, pair, strict=True)) for split, pair in files.items())
        sums = {f"{split}.{side}": sha256_of(path) for split, sides in pairs for side, path in sides}
        return ParallelCorpus(files, sums)
    located = locate(data.name)
    require_languages(data, tuple(located["train"]))
    return ParallelCorpus(
        {split: (roles[data.source], roles[data.target]) for split, roles in located.items()}, checksums(data.name)
    )


def builtin_pairs(name: str, languages: tuple[str, str], data: ParallelDataConfig, cache: Path) -> ParallelCorpus:
    """Return a built-in corpus, unpacked into ``cache``, with parts of its test set.

    Raises:
        PhmrunError: (exit 2) The sides are not these languages, in either direction.
    """
    require_languages(data, languages)
    directory = corpora.unpack(name, cache)
    files = {split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS}
    return ParallelCorpus(files, {"builtin": corpora.VERSIONS[name]}, parts={"test": directory / "test.part"})


def own_files(data: ParallelDataConfig) -> Files:
    """Return the user's files by split, from their names or their common prefix.

    A prefix names all files that exist, also with the ending ``.gz``; that of validation is "dev" or "val". A file that
    is named takes the place of the prefix's, and must exist, as those of training and validation must. Splits without
    files are left out; with ``hold_out``, so is the validation set.

    Raises:
        PhmrunError: (exit 3) A required or named file does not exist, or a split has a single side.
    """
    files: Files = {}
    for split in SPLITS:
        sides = []
        for side, language in zip(SIDES, (data.source, data.target), strict=True):
            key = f"{split}_{side}"
            file, names = getattr(data, key), ("dev", "val") if split == "dev" else (split,)
            prefix = data.prefix if file is None else None
            starts = [f"{prefix}{name}.{language}" for name in names] if prefix else []
            paths = [start + end for start in starts for end in ("", ".gz")]
            candidates = list(map(Path, paths or filter(None, [file])))
            sides += [path for path in candidates if path.is_file()][:1]
            optional = bool(prefix) and (split == "test" or (split == "dev" and data.hold_out > 0))
            if candidates and not optional and not any(path.is_file() for path in candidates):
                hint = f"Name the files with --prefix (data.prefix; a folder has its /), this one with data.{key}."
                hint += " Or data.hold_out=0.1 takes a tenth of the training pairs." if split == "dev" else ""
                what = f"the {split} file does not exist: {' or '.join(map(str, candidates))}"
                raise data_error(what, "data.prefix" if prefix else f"data.{key}", hint)
        if split == "dev" and data.hold_out:
            continue
        if len(sides) == 1:
            raise data_error(f"the {split} set has one side only", sides[0])
        if sides:
            files[split] = (sides[0], sides[1])
    return files


def require_languages(data: ParallelDataConfig, languages: tuple[str, ...]) -> None:
    """Check that a corpus has both languages.

    Raises:
        PhmrunError: (exit 2) A language is missing; the error names those available.
    """
    for key in SIDES:
        if getattr(data, key) not in languages:
            what = f"the dataset {data.name!r} has no language {getattr(data, key)!r}"
            raise PhmrunError(what, where=f"data.{key}", valid=languages)
