"""Lightning's view of a task's module and data during training.

Tasks define a plain :class:`~phmrun.engine.module.TrainingModule` and :class:`~phmrun.engine.data.DataModule`, so
trained networks are used without Lightning.

Lightning imports torchmetrics, which imports transformers, SciPy and Matplotlib if they are installed. That takes 2.8
of 5.6 seconds of CPU time, so these packages are hidden during the import.
"""

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError
from typing import Any
from unittest import mock

from lightning_utilities.core import imports
from torch.optim import Optimizer

from phmrun.engine.data import DataModule
from phmrun.engine.module import Batch, TrainingModule

UNUSED = {"matplotlib", "scipy", "transformers"}
_version, _available = imports._version, imports.package_available


def _version_of(name: str) -> str:
    """Return the version of a package.

    Raises:
        PackageNotFoundError: It is unused or missing.
    """
    if name in UNUSED:
        raise PackageNotFoundError(name)
    return str(_version(name))


with (
    mock.patch.object(imports, "_version", _version_of),
    mock.patch.object(imports, "package_available", lambda name: name not in UNUSED and _available(name)),
):
    import pytorch_lightning as pl
    from lightning_fabric.plugins.io import TorchCheckpointIO
    from lightning_fabric.utilities.exceptions import MisconfigurationException
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.strategies import DDPStrategy
    from pytorch_lightning.utilities import move_data_to_device


TEACHER = "teacher"
"""Key of the teacher's state in a checkpoint."""


class LightningTraining(pl.LightningModule):
    """Lightning module that forwards all calls to a task's module.

    Names of weights in checkpoints are those of the task's module.
    """

    def __init__(self, objective: TrainingModule) -> None:
        super().__init__()
        self.objective = objective

    def training_step(self, batch: Batch, batch_index: int) -> dict[str, Any]:
        """Return "loss", "nll" and "units" of a batch.

        See :meth:`TrainingModule.training_step`.
        """
        return self.objective.training_step(batch, batch_index)

    def configure_optimizers(self) -> Any:
        """Return the optimizer and schedule of the task's module."""
        return self.objective.configure_optimizers()

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Call the task's hook before an optimizer step."""
        self.objective.on_before_optimizer_step(optimizer)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add the states of task and teacher to a checkpoint, in place.

        A teacher's is under the key "teacher"; without a teacher there is no such key. Its module gets the task's
        trainer as an attribute.
        """
        self.objective.on_save_checkpoint(checkpoint)
        if self.objective.teacher:
            checkpoint[TEACHER] = {}
            self.objective.teacher.module.trainer = self.objective.trainer
            self.objective.teacher.module.on_save_checkpoint(checkpoint[TEACHER])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the states of the task, and of its teacher if it has one.

        The teacher's module first gets the task's trainer as an attribute. Without a teacher's state in the checkpoint,
        it restores an empty one.
        """
        self.objective.on_load_checkpoint(checkpoint)
        if self.objective.teacher:
            self.objective.teacher.module.trainer = self.objective.trainer
            self.objective.teacher.module.on_load_checkpoint(checkpoint.get(TEACHER, {}))

    def state_dict(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return the ``state_dict`` of the task's module."""
        return self.objective.state_dict(*arguments, **keywords)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load weights into the task's module, in place.

        Return torch's lists of missing and unexpected names.
        """
        return self.objective.load_state_dict(state_dict, strict, assign)


class LightningData(pl.LightningDataModule):
    """Lightning data module that returns a task's training batches."""

    def __init__(self, source: DataModule) -> None:
        super().__init__()
        self.source = source

    def train_dataloader(self) -> Iterable[Any]:
        """Return an endless iterable of training batches after the source's ``start_step``."""
        return self.source.train_dataloader()


def window_completed(trainer: pl.Trainer) -> bool:
    """Return True if the last batch ended an accumulation window.

    An optimizer step has then been taken.
    """
    return trainer.fit_loop.epoch_loop.batch_progress.total.ready % trainer.accumulate_grad_batches == 0
