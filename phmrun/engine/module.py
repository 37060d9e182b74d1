"""What every task's module has in common: one loss, weighted by tokens, and its optimiser. It needs no Lightning.

A module may learn from a trained network's predictions beside the data's (Hinton, Vinyals and Dean 2015). The loss of
a unit is then (1 - w)·L + w·T²·KL(p ‖ q), where L is the task's own loss, and p and q are the softmax of the teacher's
and of the student's logits / T; T² keeps the size of the gradients whatever T is (section 2 there). For translation
this is word-level distillation (Kim and Rush 2016, section 3.1).
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from phmrun.config import Experiment, Task
from phmrun.engine.export_graph import ExportGraph
from phmrun.engine.optimizers import OptimizerBuilder
from phmrun.engine.schedules import Schedule
from phmrun.errors import PhmrunError
from phmrun.layers import Structure, share_parameters
from phmrun.layers.network import replace_structures
from phmrun.registry import TASKS


class Prediction(NamedTuple):
    """What a network predicts of each of some units.

    Attributes:
        vectors: What the logits are made from, ``[units, …]``.
        logits: From vectors to logits ``[units, classes]``; -inf rules a class out.
    """

    vectors: Tensor
    logits: Callable[[Tensor], Tensor]


class Teacher:
    """A trained module, from which another one learns.

    It is no part of the module that learns, nor of its checkpoints, but for what it remembers of the batches before.

    Args:
        module: The trained module; its weights stay as they are.
        weight: w.
        temperature: T.
    """

    def __init__(self, module: "TrainingModule", weight: float, temperature: float) -> None:
        self.module = module.requires_grad_(False)
        self.module.train()  # it goes through the training batches: a language model remembers those apart
        self.module.network.eval()
        self.weight = weight
        self.temperature = temperature

    def taught(self, loss: Tensor, predictions: Sequence[Prediction], batch: Any) -> Tensor:
        """The loss to minimise, summed over the units of a batch: of the task's own and the student's predictions."""
        if self.module.device != loss.device:
            self.module.to(loss.device)
        with torch.no_grad():
            wanted = [prediction.logits(prediction.vectors) for prediction in self.module.predictions(batch)]
        distance = torch.zeros_like(loss)
        for prediction, teacher in zip(predictions, wanted, strict=True):
            distance = distance + divergence(prediction.logits(prediction.vectors), teacher, self.temperature)
        return (1 - self.weight) * loss + self.weight * distance


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Σ T²·KL(softmax(teacher / T) ‖ softmax(student / T)) over the rows of logits ``[units, classes]``."""
    found = (student.float() / temperature).log_softmax(-1)
    wanted = (teacher.float() / temperature).log_softmax(-1)
    gap = torch.where(wanted.isfinite(), wanted - found, 0.0)  # what is ruled out adds nothing
    return temperature**2 * (wanted.exp() * gap).sum()


class Batch(Protocol):
    """What a training batch must say of itself."""

    @property
    def window_units(self) -> int:
        """Units (target tokens, items) in the whole accumulation window that the batch belongs to, of all processes."""


class Loss(NamedTuple):
    """The loss of one batch, summed.

    Attributes:
        total: What is minimised, summed over ``units``, differentiable.
        nll: Negative log-likelihood in nats, summed over ``units``; what is reported.
        units: Number of units (target tokens, items) that the sums run over.
        hits: By the name of a score, for how many of the units it is reached: ``{"accuracy": correct}``. Validation
            divides them by the units.
        predictions: What the loss was taken of; see :meth:`TrainingModule.predictions`.
    """

    total: Tensor
    nll: Tensor
    units: int
    hits: Mapping[str, Tensor] = MappingProxyType({})
    predictions: Sequence[Prediction] = ()


class TrainingModule(nn.Module):
    """A network with its objective; a task's module says what the loss of a batch is.

    Every unit of a window weighs the same in the gradient, however the window is cut into micro-batches and processes:
    a micro-batch's sum is divided by the units of the whole window.

    Args:
        network: What is trained.
        optimizer: Builds the optimiser over the network's parameters, with learning rate 1, fused or not.
        schedule: Learning rate by optimizer step, counted from 1.

    Attributes:
        counted: The names of the hits that the losses report.
        trainer: Lightning's trainer while it trains the module, else ``None``.
        teacher: A trained module that this one learns from beside the data.
    """

    counted: tuple[str, ...] = ()
    trainer: Any = None
    teacher: Teacher | None = None

    def __init__(self, network: nn.Module, optimizer: OptimizerBuilder, schedule: Schedule) -> None:
        super().__init__()
        self.network = network
        share_parameters(network)
        self.make_optimizer = optimizer
        self.schedule = schedule
        self._changing = [part for part in network.modules() if isinstance(part, Structure) and part.temporary]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    def loss(self, batch: Any) -> Loss:
        """The summed loss of one batch."""
        raise NotImplementedError

    def predictions(self, batch: Any) -> Sequence[Prediction]:
        """What the network predicts of a batch: the distributions that a teacher and its student compare.

        Raises:
            PhmrunError: The task's networks learn from no teacher.
        """
        raise PhmrunError("the networks of this task learn from no teacher", where="distillation")

    def begin(self, data: Any) -> None:
        """Takes from the data what the network starts from, before the first step of a run; nothing by default."""

    def export_graph(self) -> ExportGraph:
        """The trained network as one function of tensors, for ``phmrun export``.

        Raises:
            PhmrunError: It cannot be exported.
        """
        raise PhmrunError("the networks of this task cannot be exported")

    def training_step(self, batch: Batch, batch_index: int) -> dict[str, Any]:
        """The share of the window's mean loss; Lightning divides by the micro-batches, and by processes, again."""
        # Structures that change in the course of training are told how far it is, as a function of the step alone.
        for structure in self._changing if self.trainer.max_steps > 0 else ():
            structure.set_progress((self.trainer.global_step + 1) / self.trainer.max_steps)
        loss = self.loss(batch)
        total = self.teacher.taught(loss.total, loss.predictions, batch) if self.teacher else loss.total
        share = self.trainer.accumulate_grad_batches * self.trainer.world_size / batch.window_units
        return {"loss": total * share, "nll": loss.nll.detach(), "units": loss.units}

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Told before each optimizer step, once the gradients are complete."""

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Adds to a checkpoint what exact resume needs beyond the weights."""

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Takes up again what :meth:`on_save_checkpoint` added."""

    def configure_optimizers(self) -> Any:
        """The optimiser, with the schedule applied at every optimizer step."""
        precision = str(self.trainer.precision)
        # Gradients are scaled with 16-mixed alone. There Lightning cannot clip those of a fused optimizer.
        optimizer = self.make_optimizer(self.network, fused=precision != "16-mixed")
        if precision == "bf16-mixed":
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        scheduler = LambdaLR(optimizer, lambda step: self.schedule(step + 1))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def validation_scores(self, data: Any) -> dict[str, float]:
        """Further scores on the validation data, too costly to take unless ``training.monitor`` names one of them."""
        return {}

    def validate(self, batches: Iterable[Any]) -> dict[str, float]:
        """Mean over the units of ``batches`` and over all processes.

        Returns:
            ``loss``, the negative log-likelihood in nats, and the shares of the units that count as hits, by name.
        """
        training, device = self.training, self.device
        self.eval()
        totals = {name: torch.zeros((), dtype=torch.float64, device=device) for name in ("loss", *self.counted)}
        units = 0
        with torch.inference_mode():
            for batch in batches:
                with self.trainer.precision_plugin.val_step_context():
                    loss = self.loss(self.trainer.strategy.batch_to_device(batch, device))
                units += loss.units
                for name, value in {"loss": loss.nll, **loss.hits}.items():
                    totals[name] += value
        self.train(training)
        sums = torch.stack([*totals.values(), torch.tensor(units, dtype=torch.float64, device=device)])
        *values, count = self.trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        return {name: value / count for name, value in zip(totals, values, strict=True)}


def seed_everything(seed: int) -> None:
    """Seeds torch, NumPy and Python, before the model is built."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def build_module(config: Experiment, *sizes: int) -> TrainingModule:
    """The module of an experiment, on the current default device.

    Raises:
        PhmrunError: Sizes, structures and names of maps that do not go together, or are too large.
    """
    task: Task = TASKS.get(config.task)
    try:
        module: TrainingModule = task.load("module")(config, *sizes)
    except RuntimeError as error:
        if "overflow" not in str(error) and "allocate" not in str(error):
            raise
        what = "a matrix of the network has more numbers than the machine can hold"
        raise PhmrunError(what, where="model", hint="`phmrun count-params` shows what a network has.") from error
    if config.maps:
        replace_structures(module.network, {one.name: one.layer.arguments for one in config.maps})
    return module
