"""How prepared items reach the network: batches in the plan's order from any step on, this process's share of them."""

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch.utils.data import DataLoader, Dataset

from phmrun.engine.data import DataModule
from phmrun.text.batches import Batch, BatchPlan, BatchStream, Unit, evaluation_batches


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
