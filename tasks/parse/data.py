"""Data of dependency parsing: treebanks, held-out sentences, batches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import Dataset

from phmrun.datasets import SPLITS, builtin, checksums, locate, own_files
from phmrun.engine.data import BucketedData
from phmrun.errors import PhmrunError, counted, data_error
from phmrun.files import sha256_of
from phmrun.progress import note, progress
from phmrun.tasks.parse.biaffine_parser import Group, spelling_groups
from phmrun.tasks.parse.config import ParsingExperiment, TreebankDataConfig
from phmrun.tasks.parse.vocabulary import EncodedTreebank, TreebankVocabulary, learn_vocabulary
from phmrun.text import conllu
from phmrun.text.batches import Batch
from phmrun.text.conllu import Sentence

TRAIN, DEV = "train", "dev"
DIVISION_SEED = 1  # seed of the held-out sentences; the experiment's seed does not change the data


@dataclass(frozen=True)
class Treebank:
    """Files of a treebank on this machine."""

    files: Mapping[str, tuple[Path, ...]]  # CoNLL-U files by split; "train" has one or several
    fingerprints: Mapping[str, str]  # checksums that identify them
    # by split, a file with the part of each sentence, one per line
    parts: Mapping[str, Path] = field(default_factory=dict)


def find_treebank(data: TreebankDataConfig, cache: Path) -> Treebank:
    """Return the files of a data section.

    They are the user's own, the built-in treebank (unpacked on first use), or a published one. Splits used for training
    are not scored; neither is a split "train" that others replace.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine. (exit 2) A treebank has no such split.
    """
    if data.name == "files":
        paths_by_split = own_files(train=data.train, dev=data.dev, test=data.test)
        sums = {
            f"{split}.{number}": sha256_of(path)
            for split, paths in paths_by_split.items()
            for number, path in enumerate(paths, 1)
        }
        return Treebank(paths_by_split, sums)
    if data.name == "builtin":
        directory = builtin.unpack("treebank", cache)
        located = {split: directory / f"{split}.conllu" for split in SPLITS}
        sums = {"builtin": builtin.VERSIONS["treebank"]}
        parts = {"test": directory / "test.part"}
    else:
        located = {split: roles["conllu"] for split, roles in locate(data.name).items()}
        sums, parts = checksums(data.name), {}
    missing = [split for split in data.train if split not in located]
    if "dev" not in located and not data.hold_out:
        missing.append("dev")
    if missing:
        what = f"the treebank {data.name!r} has no split {missing[0]!r}"
        where = "data.train" if missing[0] in data.train else "data.hold_out"
        hint = "Use --set data.hold_out=0.1 to validate on a tenth of the training sentences."
        raise PhmrunError(what, where=where, valid=tuple(located), hint=hint)
    files = {"train": tuple(located[split] for split in data.train)}
    # Splits used for training are not scored; neither is a split "train" that others replace.
    files |= {split: (path,) for split, path in located.items() if split not in ("train", *data.train)}
    if data.train != ("train",):
        sums = {**sums, "train": ",".join(data.train)}
    return Treebank(files, sums, parts)


def divided(count: int, hold_out: float, fraction: Fraction) -> tuple[Sequence[int], Sequence[int]]:
    """Return the training and the held-out sentence numbers, both ascending.

    Sentences are shuffled with a fixed seed. The held-out ones come first, then the share for training. A smaller share
    is therefore part of a larger one, and the held-out sentences do not depend on it. Numbers of sentences are rounded.

    Args:
        count: Number of sentences.
        hold_out: Share to hold out; at least one sentence unless 0.
        fraction: Share of the rest for training; at least one sentence.
    """
    order = np.argsort(np.random.PCG64(DIVISION_SEED).random_raw(count), kind="stable")
    held = max(1, round(count * hold_out)) if hold_out else 0
    learnt = max(1, round((count - held) * fraction))
    return sorted(order[held : held + learnt].tolist()), sorted(order[:held].tolist())


class TreeBatch(NamedTuple):
    """Sentences as tensors; see :class:`phmrun.tasks.parse.vocabulary.Padded`."""

    # inputs of the network: words, tags, characters, character counts, spellings, lengths
    inputs: tuple[Tensor, ...]
    heads: Tensor  # `[batch, length]`
    labels: Tensor  # `[batch, length]`
    positions: Tensor  # positions of words in the flattened `[batch, length]`, `[words]`
    units: int
    window_units: int  # words in the whole accumulation window, over all processes
    groups: tuple[Group, ...] | None = None  # groups of spellings; None: computed by the network


@dataclass(frozen=True)
class TreeBatches(Dataset[TreeBatch]):
    """Dataset of tensors by :class:`Batch` of sentence numbers."""

    treebank: EncodedTreebank

    def __getitem__(self, batch: Batch) -> TreeBatch:
        padded = self.treebank.padded(batch.indices)
        *inputs, heads, labels, positions = map(torch.from_numpy, padded)
        groups = spelling_groups(padded.character_counts.tolist())
        return TreeBatch(tuple(inputs), heads, labels, positions, len(positions), batch.window_units, groups)


class TreebankData(BucketedData[TreebankVocabulary]):
    """Trees, read and encoded once per process; a batch's tokens are words and roots.

    Args:
        config: Resolved config.
        treebank: Files of the trees.
    """

    unit = "words"
    config: ParsingExperiment

    def __init__(self, config: ParsingExperiment, treebank: Treebank) -> None:
        held = {DEV: treebank.files[TRAIN]} if config.data.hold_out else {}
        super().__init__(config, {**treebank.files, **held}, treebank.fingerprints)
        self.treebank = treebank

    def sentences(self, split: str) -> Sequence[Sentence]:
        """Return the trees of a split in the order of its files.

        With ``hold_out``, "dev" is a share of the training trees. "train" has the others, without sentences that are
        too long and only the configured share.

        Raises:
            PhmrunError: (exit 3) A file is malformed, or no training sentence is left.
        """
        if split == TRAIN:
            return self._divided[0]
        if split == DEV and self.config.data.hold_out:
            return self._divided[1]
        return _read(self.files[split])

    @cached_property
    def _divided(self) -> tuple[list[Sentence], list[Sentence]]:
        """Training sentences of at most ``max_length`` words, and held-out sentences.

        A note tells how many are too long.

        Raises:
            PhmrunError: (exit 3) No training sentence is left.
        """
        pool, data = _read(self.files[TRAIN]), self.config.data
        learnt, held = divided(len(pool), data.hold_out, Fraction(data.train_fraction))
        short = [pool[number] for number in learnt if len(pool[number]) <= data.max_length]
        if len(short) < len(learnt):
            longer = counted(len(learnt) - len(short), "sentence")
            note(f"train: {longer} of more than {counted(data.max_length, 'word')} left out")
        if not short:
            what, where = "there is no sentence to learn from", str(self.files[TRAIN][0])
            raise data_error(what, where, "See data.max_length, data.hold_out and data.train_fraction.")
        return short, [pool[number] for number in held]

    @cached_property
    def vocabulary(self) -> TreebankVocabulary:
        """Vocabulary of the training trees, learned with the configured settings."""
        with_rare = self.config.model.fixed_width > 0
        return learn_vocabulary(self.sentences(TRAIN), self.config.data.vocabulary, with_rare=with_rare)

    @cached_property
    def _encoded(self) -> dict[str, EncodedTreebank]:
        """Training and validation sentences as ids, by split."""
        return {split: self.vocabulary.encode(self.sentences(split)) for split in (TRAIN, DEV)}

    def prepare(self) -> None:
        """Read and encode training and validation trees.

        Read the other splits to find errors early.

        Raises:
            PhmrunError: (exit 3) A file is malformed, or no training sentence is left.
        """
        _ = self._encoded
        for split in self.files.keys() - {TRAIN, DEV}:
            self.sentences(split)

    def check(self, split: str) -> None:
        """Do nothing: :meth:`prepare` reads every split."""

    def statistics(self) -> dict[str, Any]:
        """Return the vocabulary's sizes, and facts of each split.

        These are sentences, words, mean and greatest length (words), and the share (0–1) of unknown words, for "train"
        and "dev".
        """
        sizes = dict(zip(("words", "tags", "characters", "labels", "rare words"), self.vocabulary.sizes, strict=False))
        splits = {}
        for split, encoded in self._encoded.items():
            words = int(encoded.lengths.sum())
            splits[split] = {
                "sentences": len(encoded),
                "words": words,
                "mean_length": round(words / len(encoded), 3),
                "max_length": int(encoded.lengths.max()),
                "unknown_rate": int(self.vocabulary.unknown(encoded).sum()) / words,
            }
        return {"vocabulary": sizes, "splits": splits}

    def batches(self, split: str) -> TreeBatches:
        """Return the dataset of batches of the split "train" or "dev"."""
        return TreeBatches(self._encoded[split])

    def lengths(self, split: str) -> tuple[ArrayLike]:
        """Return the number of words of each sentence.

        It is a tuple of length 1.
        """
        return (self._encoded[split].lengths,)

    def weights(self) -> ArrayLike:
        """Return the weight of each training sentence: its number of words."""
        return self._encoded[TRAIN].lengths

    def inputs(self, split: str) -> Iterator[str]:
        """Yield the sentences of a split as CoNLL-U, each without its last LF.

        Sentences of files with CR LF line ends keep the last CR.
        """
        return (sentence.text.removesuffix("\n") for sentence in self.sentences(split))


def build_data(config: ParsingExperiment, cache: Path) -> TreebankData:
    """Build the data module of an experiment.

    The built-in treebank is unpacked into ``cache``.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine. (exit 2) A treebank has no such split.
    """
    return TreebankData(config, find_treebank(config.data, cache))


def _read(paths: Sequence[Path]) -> list[Sentence]:
    """Read the trees of some files in order, with progress.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """
    sentences: list[Sentence] = []
    with progress("reading trees", len(paths), "files") as advance:
        for path in paths:
            sentences += conllu.load(path)
            advance(1)
    return sentences
