"""What every task's data module offers to the rest of the runner, and how prepared items reach the network."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

import torch
from numpy.typing import ArrayLike
from torch.utils.data import DataLoader, Dataset

from phmrun.files import sha256_of
from phmrun.ledger.data import Split
from phmrun.text.batches import Batch, BatchPlan, BatchStream, Unit, evaluation_batches


class Vocabulary(Protocol):
    """What turns a task's text into numbers; it travels in the run directory."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """What the network is built for."""

    def save(self, directory: Path) -> None:
        """Writes it."""

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads what ``save`` wrote."""


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


class Loading:
    """Loaders of one data module's batches; loading draws nothing from the global random state.

    Args:
        data: Whose batches they are; its ``start_step`` and its trainer say which come next, and to which process.
        accumulate: Micro-batches per optimizer step and process.
        seed: Seed of the batch order.
        workers: Processes that load training batches; 0: none beside this one.
    """

    def __init__(self, data: DataModule, *, accumulate: int, seed: int, workers: int) -> None:
        self.data = data
        self.accumulate = accumulate
        self.seed = seed
        self.workers = workers

    @property
    def share(self) -> tuple[int, int]:
        """This process's number, and how many there are."""
        trainer = self.data.trainer
        return (trainer.global_rank, trainer.world_size) if trainer else (0, 1)

    def steps_in_epochs(self, plan: BatchPlan, epochs: int, world: int) -> int:
        """Optimizer steps of ``world`` processes in so many epochs of a plan."""
        return BatchStream(plan, seed=self.seed, accumulate=self.accumulate, world=world).steps_in_epochs(epochs)

    def training(self, plan: BatchPlan, dataset: Dataset[Any]) -> DataLoader[Any]:
        """Training batches without end, from the data's ``start_step`` on.

        Args:
            plan: How the split is cut into batches.
            dataset: Turns a :class:`Batch` into tensors.
        """
        rank, world = self.share
        start = self.data.start_step * self.accumulate * world
        stream = BatchStream(plan, seed=self.seed, start=start, accumulate=self.accumulate, rank=rank, world=world)
        return self._loader(stream, dataset, self.workers)

    def validation(self, dataset: Dataset[Any], *lengths: ArrayLike, unit: Unit, size: int) -> DataLoader[Any]:
        """Each item of a split once, longest first.

        Args:
            dataset: Turns a :class:`Batch` into tensors.
            *lengths: Of one side or of two, as :func:`phmrun.text.batches.evaluation_batches` takes them.
            unit: What ``size`` counts.
            size: Most tokens, or sentences, in one batch.
        """
        rank, world = self.share
        rows = evaluation_batches(*lengths, unit=unit, size=size, rank=rank, world=world)
        return self._loader([Batch(number, indices, 1) for number, indices in enumerate(rows)], dataset, 0)

    def _loader(self, sampler: Any, dataset: Dataset[Any], workers: int) -> DataLoader[Any]:
        generator = torch.Generator().manual_seed(self.seed)
        return DataLoader(
            dataset, sampler=sampler, batch_size=None, num_workers=workers, generator=generator, collate_fn=_as_it_is
        )


def _as_it_is(batch: Any) -> Any:
    """Batches come as tensors already."""
    return batch
