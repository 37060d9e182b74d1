"""Data modules: interface of tasks' data, batching, checks of figures."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.utils.data import DataLoader, Dataset

from phmrun.config import Experiment, Task
from phmrun.datasets import CATALOGUE
from phmrun.datasets.reading import verify_dataset
from phmrun.engine.adaptation import with_base_vocabulary
from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.files import cache_dir, sha256_of
from phmrun.ledger.outcome import is_leader
from phmrun.registry import TASKS
from phmrun.text.batches import Batch, BatchPlan, BatchStream, evaluation_batches
from phmrun.text.store import Kept, Prepared
from phmrun.text.vocabulary import SPECIALS


class Vocabulary(Kept, Protocol):
    """Mapping of a task's text to numbers.

    It is saved in the run directory.
    """

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of vocabularies and label sets, as the network takes them."""


V = TypeVar("V", bound=Vocabulary)
LOG = logging.getLogger("phmrun.engine")


class DataModule(Generic[V]):
    """Data of an experiment: files, preparation, batches, statistics.

    Args:
        files: Files of each split, by name; these splits can be scored.
        fingerprints: SHA-256 sums by name that the run id depends on beside the config.

    Attributes:
        start_step: Optimizer steps so far; training batches start after them.
        unit: Units over which losses are averaged, in the plural: "tokens".
        trainer: Lightning's trainer during training, else ``None``.
    """

    unit = "items"
    trainer: Any = None

    def __init__(
        self, files: Mapping[str, Any] = MappingProxyType({}), fingerprints: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        self.files: dict[str, Any] = dict(files)
        self._fingerprints = dict(fingerprints)
        self.start_step = 0

    @property
    def pinned(self) -> bool:
        """True if training runs on a GPU.

        Batches are then page-locked, so that they are copied during computation. Outside training it is False.
        """
        strategy = getattr(self.trainer, "strategy", None)
        return strategy is not None and strategy.root_device.type == "cuda"

    @property
    def share(self) -> tuple[int, int]:
        """Rank of this process, and number of processes.

        Outside training they are (0, 1).
        """
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def require(self, split: str) -> None:
        """Check that ``files`` has a split.

        Raises:
            PhmrunError: (exit 3) It does not.
        """
        if split not in self.files:
            hint = "Name your own files, as in --train FILE --dev FILE, or a dataset: `phmrun data list`."
            raise data_error(f"there are no {split} data", "data", hint)

    def sources(self, split: str) -> Sequence[Path]:
        """Return the paths in a split's entry of ``files``.

        The entry is a path, or a list or tuple; other values in it are left out. A module whose ``files`` are not paths
        overrides it.

        Raises:
            KeyError: There is no such split.
        """
        files = self.files[split]
        paths = files if isinstance(files, list | tuple) else (files,)
        return [path for path in paths if isinstance(path, Path)]

    def adopt(self, other: "DataModule[V]", name: str) -> None:
        """Take the test set of another module of the task as a split of this name, to be scored."""
        self.files[name] = other.files["test"]

    def fingerprints(self) -> dict[str, str]:
        """Return the SHA-256 sums given at construction, by name.

        The run id depends on them.
        """
        return self._fingerprints

    @cached_property
    def prepared(self) -> Prepared[V, Any]:
        """Prepared data: read, checked and encoded, or loaded from the cache.

        Tasks implement it.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    @property
    def prepared_path(self) -> Path | None:
        """Directory of the prepared data; None if ``prepared`` is not implemented.

        Prepares the data if they are not yet.
        """
        try:
            return self.prepared.path
        except NotImplementedError:
            return None

    def prepare(self) -> None:
        """Prepare the data, once; the other methods need it."""
        _ = self.prepared

    @property
    def vocabulary(self) -> V:
        """Vocabulary of the prepared data."""
        return self.prepared.vocabulary

    def check(self, split: str) -> None:
        """Read all inputs of a split that preparation does not read.

        Nothing is done if ``inputs`` is not implemented.

        Raises:
            PhmrunError: (exit 3) A file is malformed, or there is no input.
        """
        try:
            count = sum(1 for _ in self.inputs(split))
        except NotImplementedError:
            return
        if not count:
            raise data_error(f"there is no text in the {split} data", ", ".join(map(str, self.sources(split))))

    def statistics(self) -> dict[str, Any]:
        """Return the sizes of the prepared data as a JSON object."""
        return self.prepared.statistics

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Return the optimizer steps of ``world`` processes in ``epochs`` epochs.

        Tasks implement it, as the methods below.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def inputs(self, split: str) -> Iterator[str]:
        """Yield the input lines of a split for ``phmrun predict``.

        An item may have several, joined by line feeds.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def train_dataloader(self) -> Iterable[Any]:
        """Return an endless iterable of this process's training batches after ``start_step``.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def validation_batches(self) -> Iterable[Any]:
        """Return this process's validation batches; each item occurs once.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError


def contents(vocabulary: Vocabulary) -> dict[str, str]:
    """Return the SHA-256 sums of a vocabulary's files, by relative path.

    The vocabulary is saved to a temporary folder for this. Files in subfolders count, too.
    """
    with TemporaryDirectory() as directory:
        vocabulary.save(Path(directory))
        files = [path for path in Path(directory).rglob("*") if path.is_file()]
        return {str(path.relative_to(directory)): sha256_of(path) for path in files}


class BucketedData(DataModule[V]):
    """Data in batches of similar length, or in file order.

    The order of batches depends on seed and epoch only.

    Args:
        config: Resolved config, whose sections ``batch``, ``training`` and ``hardware`` set the batches.
        files: Files of each split, by name.
        fingerprints: SHA-256 sums by name.
    """

    def __init__(self, config: Experiment, files: Mapping[str, Any], fingerprints: Mapping[str, str]) -> None:
        super().__init__(files, fingerprints)
        self.config = config

    def batches(self, split: str) -> Dataset[Any]:
        """Return a dataset that maps each :class:`Batch` of a split to tensors.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def lengths(self, split: str) -> tuple[ArrayLike, ...]:
        """Return the tokens of each item, ``[items]``, without end token, for one or two sides.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def weights(self) -> ArrayLike | None:
        """Return the loss units of each training item, ``[items]``.

        None, as here, stands for its target tokens and the end token.
        """
        return None

    @cached_property
    def plan(self) -> BatchPlan:
        """Division of the training split into batches; computed once.

        It is made from the lengths of the first and last side, which may be the same one. With the order "file", items
        stay in their order, in every epoch.
        """
        first, *_, last = self.lengths("train") * 2
        batch = self.config.batch
        budget: dict[str, Any] = {"unit": batch.unit, "size": batch.size, "buckets": batch.buckets}
        return BatchPlan(first, last, **budget, weights=self.weights(), ordered=batch.order == "file")

    def _stream(self, start: int = 0, rank: int = 0, world: int = 1) -> BatchStream:
        """Return the endless stream of training batches of a process, after ``start`` micro-batches of all."""
        seed, accumulate = self.config.seed, self.config.training.accumulate
        return BatchStream(self.plan, seed=seed, start=start, accumulate=accumulate, rank=rank, world=world)

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Return the optimizer steps of ``world`` processes in ``epochs`` epochs."""
        return self._stream(world=world).steps_in_epochs(epochs)

    def train_dataloader(self) -> DataLoader[Any]:
        """Return an endless loader of this process's training batches after ``start_step``."""
        rank, world = self.share
        stream = self._stream(self.start_step * self.config.training.accumulate * world, rank, world)
        seed, workers = self.config.seed, self.config.hardware.workers
        return loader(stream, self.batches("train"), seed=seed, workers=workers, pinned=self.pinned)

    def validation_batches(self) -> DataLoader[Any]:
        """Return this process's validation batches, longest items first.

        Items are those of the split "dev". Each item occurs once over all processes. They are loaded in this process,
        and their ``window_units`` is 1.
        """
        rank, world = self.share
        batch = self.config.batch
        rows = evaluation_batches(*self.lengths("dev"), unit=batch.unit, size=batch.size, rank=rank, world=world)
        batches = [Batch(number, indices, 1) for number, indices in enumerate(rows)]
        return loader(batches, self.batches("dev"), seed=self.config.seed, pinned=self.pinned)


def loader(
    sampler: Any, dataset: Dataset[Any], *, seed: int, workers: int = 0, pinned: bool = False
) -> DataLoader[Any]:
    """Return a loader of whole batches, in the sampler's order.

    The global random state is not used.

    Args:
        sampler: Yields the indices of batches.
        dataset: Maps an index to a batch.
        seed: Random seed of the loader's own generator.
        workers: Additional processes.
        pinned: Copy batches to page-locked memory.
    """
    generator = torch.Generator().manual_seed(seed)
    identity = nn.Identity()  # the dataset's batches are tensors
    return DataLoader(
        dataset,
        sampler=sampler,
        batch_size=None,
        num_workers=workers,
        generator=generator,
        collate_fn=identity,
        pin_memory=pinned,
    )


DOUBTFUL = 0.5
"""Share of unknown words from which there is a warning."""


def doubts(config: Experiment, data: DataModule[Any]) -> Iterator[str]:
    """Yield warnings about prepared data.

    First, each split "dev" or "test" that shares a file (by resolved path) with the training data, if the data are the
    user's own files. With ``data.hold_out``, only "test" is checked. Those of :func:`odd_figures` follow.
    """
    if config.data.name == "files":
        learnt = {path.resolve() for path in data.sources("train")}
        for split in ("test",) if config.data.hold_out else ("dev", "test"):
            if split in data.files and (shared := [p for p in data.sources(split) if p.resolve() in learnt]):
                yield f"{split} is what the model learns from ({shared[0]}): its scores say nothing of unseen text"
    yield from odd_figures(data.statistics())


def odd_figures(statistics: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings about figures of data: many unknown words, reserved characters, labels without items.

    Each split except "train" has one for each side with at least 50 % unknown words. "train" has one for each label
    without items.

    Args:
        statistics: Counts by split, as a run's ``parameters.json`` has them.
    """
    for split, counts in statistics.get("splits", {}).items():
        for side, share in _unknown(counts):
            if split != "train" and share >= DOUBTFUL:
                where = " ".join(filter(None, (split, side)))
                yield (
                    f"{where}: {share:.0%} of the words are not in the vocabulary of the training data; "
                    "is it the same language, and are words parted from marks alike?"
                )
        if reserved := counts.get("reserved"):
            yield (
                f"{split}: {reserved:,} lines hold characters that vocabularies reserve (▅, ▁, {', '.join(SPECIALS)}): "
                "they become unknown or spaces, and subwords are not learnt from a line with ▅; replace them"
            )
        for label, count in counts.get("labels", {}).items() if split == "train" else ():
            if not count:
                yield f"train: no item has the label {label}"


def _unknown(counts: Mapping[str, Any], side: str = "") -> Iterator[tuple[str, float]]:
    """Yield (side, share of unknown words) of nested counts.

    The share is the entry "unknown_rate" at any depth; counts without it yield nothing. The side is the key under which
    these counts are; ``side`` for ``counts`` itself.
    """
    if "unknown_rate" in counts:
        yield side, counts["unknown_rate"]
    for name, inner in counts.items():
        if isinstance(inner, Mapping):
            yield from _unknown(inner, name)


def build_data(config: Experiment) -> DataModule:
    """Return the task's data module for a config, not yet prepared.

    With a base run (``adapts``), the data have its vocabulary if the task can read one from a folder.
    """
    config = with_base_vocabulary(config)
    task: Task = TASKS.get(config.task)
    data: DataModule = task.load("data")(config, cache_dir())
    return data


def prepare(config: Experiment, data: DataModule) -> None:
    """Check and prepare the data, and log warnings about them.

    Sizes of datasets are compared with the published ones, and every split is read, so that no fault of a test set
    shows after training. Splits in ``score_on`` must exist. Only the first process warns.

    Raises:
        PhmrunError: The data differ from the published sizes or are malformed (exit 3), or lack a split (exit 2).
    """
    if absent := [split for split in config.score_on if split not in data.files]:
        raise PhmrunError(f"the data have no split {absent[0]!r}", where="score_on", valid=sorted(data.files))
    if config.data.name in CATALOGUE:
        verify_dataset(config.data.name, cache_dir())
    else:
        for split in sorted(data.files.keys() - {"train", "dev"}):
            data.check(split)
    data.prepare()
    if is_leader():
        for doubt in doubts(config, data):
            LOG.warning("%s", doubt)


def vocabulary_sizes(config: Experiment) -> tuple[int, ...] | None:
    """Return the sizes of the vocabulary that ``train`` would learn.

    The data are prepared for this. The result is ``None`` if building the data fails with exit 3, or if they have no
    training split.

    Raises:
        PhmrunError: The config does not fit the data, or the data are malformed.
    """
    try:
        data = build_data(config)
    except PhmrunError as error:
        if error.code == ExitCode.DATA:
            return None
        raise
    # A task without a built-in corpus has no training data until files or a dataset are named.
    return data.vocabulary.sizes if "train" in data.files else None
