"""What every task's data module offers to the rest of the runner, and how prepared items reach the network."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch
from numpy.typing import ArrayLike
from torch.utils.data import DataLoader, Dataset

from phmrun.config import Experiment
from phmrun.files import sha256_of
from phmrun.ledger.environment import Split
from phmrun.text.batches import Batch, BatchPlan, BatchStream, Unit, evaluation_batches
from phmrun.text.preparation import Kept


class Vocabulary(Kept, Protocol):
    """What turns a task's text into numbers; it travels in the run directory."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """What the network is built for."""


class DataModule:
    """Data of one experiment: where they come from, how they are batched, what is to be known about them.

    Attributes:
        files: What belongs to each split; a split that is there can be scored.
        start_step: Optimizer steps already done; the first training batch is the one after them.
        unit: What losses are averaged over, in the plural: "tokens".
        trainer: Lightning's trainer while it trains on the data, else ``None``.
    """

    unit = "items"
    trainer: Any = None

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.start_step = 0

    @property
    def share(self) -> tuple[int, int]:
        """This process's number, and how many there are."""
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def sources(self, split: str) -> Sequence[Path]:
        """The files that a split is read from; a module whose ``files`` holds no paths says so itself."""
        found = self.files[split]
        paths = found if isinstance(found, list | tuple) else (found,)
        return [path for path in paths if isinstance(path, Path)]

    def checked(self, split: str) -> Split:
        """The files of a split with the checksums that they have now.

        Raises:
            PhmrunError: (exit 3) One of them is missing or damaged.
        """
        return Split.of(self.sources(split))

    def fingerprints(self) -> dict[str, str]:
        """What the run id must know of the data beyond the config: SHA-256 sums by name."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Reads, checks and encodes the data, or finds that done; afterwards the other methods work."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> Vocabulary:
        """What turns text into numbers."""
        raise NotImplementedError

    def statistics(self) -> dict[str, Any]:
        """Sizes of the prepared data, all of it JSON."""
        raise NotImplementedError

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
    """

    unit: Unit
    size: int
    accumulate: int
    seed: int
    workers: int


def batching_of(config: Experiment) -> Batching:
    """What an experiment says of it."""
    return Batching(
        config.batch.unit,
        config.batch.size,
        config.training.accumulate,
        config.seed,
        config.hardware.workers,
    )


class BucketedData(DataModule):
    """Items in batches of like length, whose order is a pure function of seed and epoch.

    Args:
        batching: How items become batches.
    """

    def __init__(self, batching: Batching) -> None:
        super().__init__()
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
        first, *_, last = self.lengths("train") * 2
        return BatchPlan(first, last, unit=self.batching.unit, size=self.batching.size, weights=self.weights())

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
        return loader(stream, self.batches("train"), seed=self.batching.seed, workers=self.batching.workers)

    def validation_batches(self) -> DataLoader[Any]:
        """The validation data, each item once, longest first; this process's share."""
        rank, world = self.share
        unit, size = self.batching.unit, self.batching.size
        rows = evaluation_batches(*self.lengths("dev"), unit=unit, size=size, rank=rank, world=world)
        batches = [Batch(number, indices, 1) for number, indices in enumerate(rows)]
        return loader(batches, self.batches("dev"), seed=self.batching.seed)


def loader(sampler: Any, dataset: Dataset[Any], *, seed: int, workers: int = 0) -> DataLoader[Any]:
    """Loads batches that are made whole by their dataset; draws nothing from the global random state.

    Args:
        sampler: Which batches.
        dataset: Makes them.
        seed: Seed of the loader's own generator.
        workers: Processes that load; 0: none beside this one.
    """
    generator = torch.Generator().manual_seed(seed)
    return DataLoader(
        dataset, sampler=sampler, batch_size=None, num_workers=workers, generator=generator, collate_fn=_as_it_is
    )


def _as_it_is(batch: Any) -> Any:
    """Batches come as tensors already."""
    return batch
