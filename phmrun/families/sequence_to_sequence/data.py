"""Sentence pairs from built-in corpora, datasets or user files, and training batches."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
from phmrun.engine.data import Batching, BucketedData, batching_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig, SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.preparation import VocabularySettings, prepare_parallel
from phmrun.files import sha256_of
from phmrun.metrics import Score, bleu_obstacle
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
        numbers = batch.indices.tolist()
        sources = [self.store.source[number] for number in numbers]
        targets = [self.store.target[number] for number in numbers]
        source, mask = padded_sources(sources)
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
            source,
            mask,
            torch.from_numpy(shifted),
            torch.from_numpy(positions),
            torch.from_numpy(wanted.reshape(-1)[positions]),
            len(positions),
            batch.window_units,
        )


def padded_sources(sources: list[NDArray[Any]]) -> tuple[Tensor, Tensor | None]:
    """Return source tokens with the end token, padded, and their mask.

    Tokens are ``[batch, source]``, the mask ``[batch, 1, 1, source]``, True at tokens; None without padding.
    """
    lengths = np.array([len(source) + 1 for source in sources])
    tokens = np.full((len(sources), lengths.max()), PAD, dtype=np.int64)
    for row, source in enumerate(sources):
        tokens[row, : len(source)] = source
        tokens[row, len(source)] = EOS
    if lengths.min() == lengths.max():
        return torch.from_numpy(tokens), None
    return torch.from_numpy(tokens), torch.from_numpy(tokens != PAD)[:, None, None, :]


class ParallelData(BucketedData[Vocabularies]):
    """Data module of sentence pairs, encoded once and read from memory-mapped stores.

    Args:
        files: (source, target) files by split: "train", "dev" and any test sets.
        fingerprints: SHA-256 sums that identify the text.
        parts: Files by split that name, line by line, the part of each pair.
        baselines: Baselines without a model, by name; "copy" is always added.
        vocabulary: Settings of the vocabularies.
        vocabularies: Vocabularies to use instead of learning them.
        max_length: Training pairs with more tokens on a side are left out.
        tokenizer: BLEU's tokenizer.
        monitored: True if training chooses weights by BLEU.
        batching: Settings of the batches.
        cache: Directory of prepared corpora.
    """

    unit = "tokens"

    def __init__(
        self,
        files: Mapping[str, tuple[Path, Path]],
        fingerprints: Mapping[str, str],
        *,
        parts: Mapping[str, Path] | None = None,
        baselines: Mapping[str, Baseline] | None = None,
        vocabulary: VocabularySettings,
        vocabularies: Vocabularies | None = None,
        max_length: int,
        batching: Batching,
        cache: Path,
        tokenizer: str = "13a",
        monitored: bool = False,
    ) -> None:
        sides = {} if vocabularies is None else {"source": vocabularies.source, "target": vocabularies.target}
        sums = {f"vocabulary {side}": words.sha256 for side, words in sides.items()}
        super().__init__(batching, files, {**fingerprints, **sums})
        self.parts = dict(parts or {})
        self.baselines: dict[str, Baseline] = {"copy": list, **(baselines or {})}
        self.measures: dict[str, OutputMeasure] = {}
        self.settings = vocabulary
        self.given = vocabularies
        self.max_length = max_length
        self.tokenizer, self.monitored = tokenizer, monitored
        self.cache = cache

    @cached_property
    def prepared(self) -> Prepared[Vocabularies, ParallelStore]:
        """Encoded training and validation pairs, prepared on first use."""
        needed = {split: self.files[split] for split in ("train", "dev")}
        return prepare_parallel(
            needed, self.settings, max_length=self.max_length, cache=self.cache, vocabularies=self.given
        )

    def prepare(self) -> None:
        """Prepare the data, and warn if BLEU does not fit the validation references.

        Raises:
            PhmrunError: (exit 2) Training chooses weights by BLEU, which does not fit.
        """
        super().prepare()
        references = [target for _, target in islice(read_parallel(*self.files["dev"]), REFERENCES)]
        if (obstacle := bleu_obstacle(self.tokenizer, references)) is None:
            return
        if self.monitored:
            raise PhmrunError(f"there is no BLEU: {obstacle}", where="training.monitor", valid=["loss"])
        LOG.warning("chrF stands in the place of BLEU: %s", obstacle)

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


@dataclass(frozen=True)
class ParallelCorpus:
    """Corpus of sentence pairs on this machine; see :class:`ParallelData`."""

    files: Files
    fingerprints: dict[str, str]
    parts: Mapping[str, Path] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)


Builtin = Callable[[ParallelDataConfig, Path], ParallelCorpus]
"""Function that writes the task's built-in corpus to a cache directory, unless it is there."""


def build_parallel_data(config: SequenceToSequenceExperiment, cache: Path, builtin: Builtin) -> ParallelData:
    """Build the data module of an experiment.

    Pairs with an empty side are dropped if ``data.empty`` is "drop". Then ``data.hold_out``, if not 0, splits the
    training files into new training and validation files. Vocabularies are loaded from ``data.vocabulary.path`` if it
    is set.

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
    vocabulary = config.data.vocabulary
    return ParallelData(
        files,
        pairs.fingerprints,
        parts=pairs.parts,
        baselines=pairs.baselines,
        vocabulary=VocabularySettings(**vocabulary.model_dump(exclude={"path"})),
        vocabularies=Vocabularies.load(vocabulary.path) if vocabulary.path else None,
        max_length=config.data.max_length,
        batching=batching_of(config),
        cache=cache,
        tokenizer=config.tokenizer,
        monitored=config.training.monitor == "bleu",
    )


def corpus(data: ParallelDataConfig, cache: Path, builtin: Builtin) -> ParallelCorpus:
    """Return the corpus of a data section: built-in, user files or a dataset.

    The checksums of user files are computed here. A warning is logged if both sides of a split have the same content.

    Raises:
        PhmrunError: The run has no data, or they are not on this machine (exit 3); a language is missing (exit 2).
    """
    if data.name == NO_DATA:
        raise PhmrunError(
            "the run has no data: its checkpoint was imported without any",
            where="data.name",
            hint="Give --prefix corpus/ (corpus/train.en, corpus/train.de …), or --data NAME (`phmrun data list`).",
            code=ExitCode.DATA,
        )
    if data.name == "builtin":
        return builtin(data, cache)
    if data.name == "files":
        files = own_files(data)
        pairs = ((split, zip(SIDES, pair, strict=True)) for split, pair in files.items())
        sums = {f"{split}.{side}": sha256_of(path) for split, sides in pairs for side, path in sides}
        for split in files:
            if sums[f"{split}.source"] == sums[f"{split}.target"]:
                LOG.warning("%s: source and target have the same content: %s", split, files[split][0])
        return ParallelCorpus(files, sums)
    located = locate(data.name)
    require_languages(data, tuple(located["train"]))
    return ParallelCorpus(
        {split: (roles[data.source], roles[data.target]) for split, roles in located.items()}, checksums(data.name)
    )


def own_files(data: ParallelDataConfig) -> Files:
    """Return the user's files by split, from their names or their common prefix.

    Splits without files are left out; with ``hold_out``, so are files of the validation set.

    Raises:
        PhmrunError: (exit 3) A required or named file does not exist, or a split has a single side.
    """
    files: Files = {}
    for split in SPLITS:
        source = _file(data, split, "source", data.source)
        target = _file(data, split, "target", data.target)
        if split == "dev" and data.hold_out:
            continue
        if source and target:
            files[split] = (source, target)
        elif source or target:
            raise PhmrunError(f"the {split} set has one side only", where=str(source or target), code=ExitCode.DATA)
    return files


def _file(data: ParallelDataConfig, split: str, side: str, language: str) -> Path | None:
    """Return the file of one side of a split, or None.

    It is found by the prefix if there is one, else by name. None without a name and prefix, or if a prefix has no file
    for an optional split. The test set is optional, and the validation set with ``hold_out``. With a prefix, files may
    end in ``.gz``.

    Raises:
        PhmrunError: (exit 3) Another required or named file does not exist.
    """
    key = f"{split}_{side}"
    named: Path | None = getattr(data, key)
    if data.prefix:
        candidates = [Path(f"{data.prefix}{split}.{language}{ending}") for ending in ("", ".gz")]
    else:
        candidates = [named] if named else []
    for path in candidates:
        if path.is_file():
            return path
    # A prefix names all sets that exist; a file that is named explicitly must exist.
    optional = split == "test" or (split == "dev" and data.hold_out)
    if not candidates or (optional and data.prefix):
        return None
    raise PhmrunError(
        f"the {split} file does not exist: {' or '.join(str(path) for path in candidates)}",
        where="data.prefix" if data.prefix else f"data.{key}",
        hint="Name the files with --train-src, --train-tgt, --dev-src, --dev-tgt, or with --prefix.",
        code=ExitCode.DATA,
    )


def require_languages(data: ParallelDataConfig, languages: tuple[str, ...]) -> None:
    """Check that a corpus has both languages.

    Raises:
        PhmrunError: (exit 2) A language is missing; the error names those available.
    """
    for key in SIDES:
        if getattr(data, key) not in languages:
            raise PhmrunError(
                f"the dataset {data.name!r} has no language {getattr(data, key)!r}",
                where=f"data.{key}",
                valid=languages,
            )
