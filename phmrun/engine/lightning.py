"""Lightning, as the engine uses it: its view of a task's module and data while a model trains.

Tasks write a plain :class:`~phmrun.engine.module.TrainingModule` and :class:`~phmrun.engine.data.DataModule`, so that
what only uses a trained network does without Lightning.

Lightning loads torchmetrics, which loads transformers, SciPy and Matplotlib where they are installed: 3.5 of the 5.9
seconds of CPU time that Lightning took to load. For as long as it loads, these are not found. Who wants torchmetrics'
scores that need them imports torchmetrics first, as a plug-in does at its top.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from importlib.metadata import PackageNotFoundError
from typing import Any
from unittest import mock

from lightning_utilities.core import imports
from torch.optim import Optimizer

from phmrun.engine.data import DataModule
from phmrun.engine.module import Batch, TrainingModule

UNUSED = {"matplotlib", "scipy", "transformers"}


@contextmanager
def _unused_not_found() -> Iterator[None]:
    """What torchmetrics asks for packages finds none of the unused ones; a release that asks otherwise finds all."""
    version, available = getattr(imports, "_version", None), getattr(imports, "package_available", None)

    def version_of(name: str) -> str:
        if name in UNUSED:
            raise PackageNotFoundError(name)
        found: str = version(name)  # type: ignore[misc]
        return found

    def is_available(name: str) -> bool:
        return name not in UNUSED and available is not None and available(name)

    with ExitStack() as patches:
        if version is not None and available is not None:
            patches.enter_context(mock.patch.object(imports, "_version", version_of))
            patches.enter_context(mock.patch.object(imports, "package_available", is_available))
        yield


with _unused_not_found():
    import pytorch_lightning as pl
    from lightning_fabric.plugins.io import TorchCheckpointIO
    from lightning_fabric.utilities.exceptions import MisconfigurationException
    from pytorch_lightning.callbacks import Callback
    from pytorch_lightning.profilers import PassThroughProfiler
    from pytorch_lightning.strategies import DDPStrategy
    from pytorch_lightning.utilities import move_data_to_device

__all__ = [
    "Callback",
    "DDPStrategy",
    "MisconfigurationException",
    "PassThroughProfiler",
    "TorchCheckpointIO",
    "move_data_to_device",
    "pl",
]


TEACHER = "teacher"
"""Key of a checkpoint under which what a teacher remembers is."""


class LightningTraining(pl.LightningModule):
    """Hands Lightning's calls on to a task's module; a checkpoint's weights have the names that they have there."""

    def __init__(self, objective: TrainingModule) -> None:
        super().__init__()
        self.objective = objective

    def __setattr__(self, name: str, value: Any) -> None:
        """Lightning notes the hook that it calls, forty times a step: no parameter or module, which torch would ask."""
        if name == "_current_fx_name":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def training_step(self, batch: Batch, batch_index: int) -> dict[str, Any]:
        """The loss of a batch; see :meth:`TrainingModule.training_step`."""
        return self.objective.training_step(batch, batch_index)

    def configure_optimizers(self) -> Any:
        """The optimiser and its schedule."""
        return self.objective.configure_optimizers()

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """What the task does before an optimizer step."""
        self.objective.on_before_optimizer_step(optimizer)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds what the task keeps beyond the weights."""
        self.objective.on_save_checkpoint(checkpoint)
        if self.objective.teacher:
            checkpoint[TEACHER] = {}
            self.objective.teacher.module.trainer = self.objective.trainer
            self.objective.teacher.module.on_save_checkpoint(checkpoint[TEACHER])

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Gives it back to the task."""
        self.objective.on_load_checkpoint(checkpoint)
        if self.objective.teacher:
            self.objective.teacher.module.trainer = self.objective.trainer
            self.objective.teacher.module.on_load_checkpoint(checkpoint.get(TEACHER, {}))

    def state_dict(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:  # type: ignore[override]
        """The task's module's, so that its names do not tell of this wrapper."""
        return self.objective.state_dict(*arguments, **keywords)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Into the task's module."""
        return self.objective.load_state_dict(state_dict, strict, assign)


class LightningData(pl.LightningDataModule):
    """Hands a task's training batches to Lightning."""

    def __init__(self, source: DataModule) -> None:
        super().__init__()
        self.source = source

    def train_dataloader(self) -> Iterable[Any]:
        """Training batches without end, from the one after the source's ``start_step`` on."""
        return self.source.train_dataloader()


class Unprofiled(PassThroughProfiler):
    """No profiler, without a generator around each of the hundred hooks of a step."""

    _NOTHING = nullcontext()

    def profile(self, action_name: str) -> Any:
        """Nothing around the hook."""
        return self._NOTHING


def window_completed(trainer: pl.Trainer) -> bool:
    """Whether the batch that has just been processed completed an optimizer step."""
    return trainer.fit_loop.epoch_loop.batch_progress.total.ready % trainer.accumulate_grad_batches == 0
