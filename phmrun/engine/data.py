"""What every task's data module offers to the rest of the runner, and how prepared items reach the network."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Generic, Protocol, TypeVar

import torch
from numpy.typing import ArrayLike
from torch import nn
from torch.utils.data import DataLoader, Dataset

from phmrun.config import Experiment
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of
from phmrun.text.batches import Batch, BatchPlan, BatchStream, Unit, evaluation_batches
from phmrun.text.store import Kept, Prepared


class Vocabulary(Kept, Protocol):
    """What turns a task's text into numbers; it travels in the run directory."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """What the network is built for."""


V = TypeVar("V", bound=Vocabulary)


class DataModule(Generic[V]):
    """Data of one experiment: where they come from, how they are batched, what is to be known about them.

    Args:
        files: What belongs to each split; a split that is there can be scored.
        fingerprints: What the run id must know of the data beyond the config: SHA-256 sums by name.

    Attributes:
        start_step: Optimizer steps already done; the first training batch is the one after them.
        unit: What losses are averaged over, in the plural: "tokens".
        trainer: Lightning's trainer while it trains on the data, else ``None``.
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
        """True if training batches go to a GPU: from page-locked memory they are copied while it computes."""
        strategy = getattr(self.trainer, "strategy", None)
        return strategy is not None and strategy.root_device.type == "cuda"

    @property
    def share(self) -> tuple[int, int]:
        """This process's number, and how many there are."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def require(self, split: str) -> None:
        """Raise a `PhmrunError` (exit code 3) if there are no data of a split."""
        if split not in self.files:
            hint = "Name your own files, as in --train FILE --dev FILE, or a dataset: `phmrun data list`."
            raise PhmrunError(f"there are no {split} data", where="data", hint=hint, code=ExitCode.DATA)

    def sources(self, split: str) -> Sequence[Path]:
        """Return the files that a split is read from; a module whose ``files`` holds no paths overrides it."""
        found = self.files[split]
        paths = found if isinstance(found, list | tuple) else (found,)
        return [path for path in paths if isinstance(path, Path)]

    def fingerprints(self) -> dict[str, str]:
        """What the run id must know of the data beyond the config: SHA-256 sums by name."""
        return self._fingerprints

    @cached_property
    def prepared(self) -> Prepared[V, Any]:
        """The data read, checked and encoded, or found so in the cache."""
        raise NotImplementedError

    @property
    def prepared_path(self) -> Path | None:
        """Directory of the prepared data in the cache; ``None`` if the task keeps none."""
        try:
            return self.prepared.path
        except NotImplementedError:
            return None

    def prepare(self) -> None:
        """Makes what is :attr:`prepared`; afterwards the other methods work."""
        _ = self.prepared

    @property
    def vocabulary(self) -> V:
        """What turns text into numbers."""
        return self.prepared.vocabulary

    def statistics(self) -> dict[str, Any]:
        """Sizes of the prepared data, all of it JSON."""
        return self.prepared.statistics

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Optimizer steps of ``world`` processes in so many passes over the training data."""
        raise NotImplementedError

    def inputs(self, split: str) -> Iterator[str]:
        """The items of a split as ``phmrun predict`` takes them: lines, of which an item may have several."""
        raise NotImplementedError

    def train_dataloader(self) -> Iterable[Any]:
        """Training batches without end, from the one after ``start_step`` on; this process's share."""
        raise NotImplementedError

    def validation_batches(self) -> Iterable[Any]:
        """The validation data, each item once; this process's share."""
        raise NotImplementedError


def contents(vocabulary: Vocabulary) -> dict[str, str]:
    """Checksums of the files that a vocabulary is kept in."""
    with TemporaryDirectory() as directory:
        vocabulary.save(Path(directory))
        files = [path for path in Path(directory).rglob("*") if path.is_file()]
        return {str(path.relative_to(directory)): sha256_of(path) for path in files}


@dataclass(frozen=True)
class Batching:
    """How items become batches.

    Args:
        unit: What ``size`` counts: "tokens" or "sentences".
        size: Most tokens (padded, of the longer side), or items, per micro-batch.
        accumulate: Micro-batches per optimizer step and process.
        seed: Seed of the batch order.
        workers: Processes that load training batches; 0: none beside this one.
        order: "bucketed" by length and drawn anew in each epoch, or as in the "file".
    """

    unit: Unit
    size: int
    accumulate: int
    seed: int
    workers: int
    order: str = "bucketed"


def batching_of(config: Experiment) -> Batching:
    """What an experiment says of it."""
    batch, seed, workers = config.batch, config.seed, config.hardware.workers
    return Batching(batch.unit, batch.size, config.training.accumulate, seed, workers, batch.order)


class BucketedData(DataModule[V]):
    """Items in batches of like length, whose order is a pure function of seed and epoch."""

    def __init__(
        self,
        batching: Batching,
        files: Mapping[str, Any] = MappingProxyType({}),
        fingerprints: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(files, fingerprints)
        self.batching = batching

    def batches(self, split: str) -> Dataset[Any]:
        """Turns a :class:`Batch` of a split into tensors."""
        raise NotImplementedError

    def lengths(self, split: str) -> tuple[ArrayLike, ...]:
        """Tokens of each item of a split, of one side or of two."""
        raise NotImplementedError

    def weights(self) -> ArrayLike | None:
        """What each training item counts for in the loss; ``None``: its target tokens and the end token."""
        return None

    @cached_property
    def plan(self) -> BatchPlan:
        """How the training split is cut into batches."""
        weights = self.weights()
        first, *_, last = self.lengths("train") * 2
        ordered = self.batching.order == "file"
        return BatchPlan(
            first, last, unit=self.batching.unit, size=self.batching.size, weights=weights, ordered=ordered
        )

    def _stream(self, start: int = 0, rank: int = 0, world: int = 1) -> BatchStream:
        seed, accumulate = self.batching.seed, self.batching.accumulate
        return BatchStream(self.plan, seed=seed, start=start, accumulate=accumulate, rank=rank, world=world)

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Optimizer steps of ``world`` processes in so many passes over the training data."""
        return self._stream(world=world).steps_in_epochs(epochs)

    def train_dataloader(self) -> DataLoader[Any]:
        """Training batches without end, from the one after ``start_step`` on; this process's share."""
        rank, world = self.share
        stream = self._stream(self.start_step * self.batching.accumulate * world, rank, world)
        seed, workers = self.batching.seed, self.batching.workers
        return loader(stream, self.batches("train"), seed=seed, workers=workers, pinned=self.pinned)

    def validation_batches(self) -> DataLoader[Any]:
        """The validation data, each item once, longest first; this process's share."""
        rank, world = self.share
        unit, size = self.batching.unit, self.batching.size
        rows = evaluation_batches(*self.lengths("dev"), unit=unit, size=size, rank=rank, world=world)
        batches = [Batch(number, indices, 1) for number, indices in enumerate(rows)]
        return loader(batches, self.batches("dev"), seed=self.batching.seed, pinned=self.pinned)


def loader(
    sampler: Any, dataset: Dataset[Any], *, seed: int, workers: int = 0, pinned: bool = False
) -> DataLoader[Any]:
    """Load batches made whole by their dataset. Nothing is drawn from the global random state.

    Args:
        sampler: Yields what the dataset turns into batches.
        dataset: Makes the batches.
        seed: Seed of the loader's own generator.
        workers: Processes beside this one.
        pinned: Put batches into page-locked memory.
    """
    generator = torch.Generator().manual_seed(seed)
    as_it_is = nn.Identity()  # batches come as tensors already
    return DataLoader(
        dataset,
        sampler=sampler,
        batch_size=None,
        num_workers=workers,
        generator=generator,
        collate_fn=as_it_is,
        pin_memory=pinned,
    )


DOUBTFUL = 0.5
"""The share of unknown words from which on the data are doubted."""


def doubts(config: Experiment, data: DataModule[Any]) -> Iterator[str]:
    """What is odd in prepared data, in a sentence each: own files both learnt from and scored on, and odd figures."""
    if config.data.name == "files":
        learnt = {path.resolve() for path in data.sources("train")}
        for split in ("test",) if config.data.hold_out else ("dev", "test"):
            if split in data.files and (shared := [p for p in data.sources(split) if p.resolve() in learnt]):
                yield f"{split} is what the model learns from ({shared[0]}): its scores say nothing of unseen text"
    yield from odd_figures(data.statistics())


def odd_figures(statistics: Mapping[str, Any]) -> Iterator[str]:
    """What is odd in the figures of some data, in a sentence each.

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
        for label, count in counts.get("labels", {}).items() if split == "train" else ():
            if not count:
                yield f"train: no item has the label {label}"


def _unknown(counts: Mapping[str, Any], side: str = "") -> Iterator[tuple[str, float]]:
    if "unknown_rate" in counts:
        yield side, counts["unknown_rate"]
    for name, inner in counts.items():
        if isinstance(inner, Mapping):
            yield from _unknown(inner, name)
