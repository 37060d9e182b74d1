"""Training modules: a network with its loss, optimizer and schedule, without Lightning.

With a teacher, a module learns from a trained network, too (distillation; Hinton, Vinyals and Dean 2015). The loss of
a unit is then (1 - w)·L + w·T²·KL(p ‖ q), with the task's loss L, p = softmax(teacher's logits / T) and
q = softmax(student's logits / T). T² keeps the size of gradients independent of T (section 2 there). For translation
this is word-level distillation (Kim and Rush 2016, section 3.1).
"""

import inspect
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR

from phmrun.config import Experiment, Task
from phmrun.engine.optimizers import OptimizerBuilder
from phmrun.engine.schedules import Schedule
from phmrun.errors import PhmrunError
from phmrun.layers import Structure
from phmrun.layers.network import replace_structures
from phmrun.plugin_errors import place_of
from phmrun.registry import LOSSES, TASKS, networks
from phmrun.text.vocabulary import EOS

UNROLLED = "its LSTMs read to the end of each sentence, and a graph of them has a part for every step"

Run = Callable[..., Tensor | tuple[Tensor, ...]]


@dataclass(frozen=True)
class ExportGraph:
    """Function of tensors in evaluation mode, with all structures folded into dense layers.

    Attributes:
        network: Folded network, whose weights are exported.
        function: Module that maps the inputs, in order, to the outputs by ``network``.
        reference: Same function by the trained network.
        inputs: Names of the inputs' dimensions: ``{"source": ("batch", "source_length")}``. Equal names are equal
            sizes; a number is a fixed size.
        outputs: Names of the outputs.
        examples: Inputs of several sizes, on which both functions must agree; the first are used for tracing.
        facts: Metadata for the exported file, such as the id of the padding token.
        untraceable: Reason why only weights can be exported; empty if there is a graph.
        parts: Functions of single search steps by name; ONNX files have them instead of the whole.
        trained: Trained network, for exports with factors; None: folded exports only.
    """

    network: nn.Module
    function: nn.Module
    reference: Run
    inputs: Mapping[str, Sequence[str | int]]
    outputs: Sequence[str]
    examples: Sequence[tuple[Tensor, ...]]
    facts: Mapping[str, str] = field(default_factory=dict)
    untraceable: str = ""
    parts: Mapping[str, "ExportGraph"] = field(default_factory=dict)
    trained: nn.Module | None = None


class GraphFunction(nn.Module):
    """Function of tensors that calls a network, for a graph of it."""

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network


def outputs_of(run: Run, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the outputs of a function as a tuple, even if there is only one."""
    outputs = run(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def random_tokens(generator: torch.Generator, vocabulary: int, batch: int, length: int) -> Tensor:
    """Return random ids above those of special tokens, ``[batch, length]``."""
    return torch.randint(EOS + 1, vocabulary, (batch, length), generator=generator)


Criterion = Callable[..., Tensor]
"""Loss of a classifier, by its name in the registry: ``loss(logits, targets, *, smoothing)``.

It takes logits ``[items, classes]`` and class ids ``[items]``, and returns the sum over the items, in nats. Validations
always report the cross-entropy.
"""


class Prediction(NamedTuple):
    """Predictions of a network for the units of a batch.

    Attributes:
        vectors: Inputs of ``logits``, ``[units, …]``.
        logits: Function from vectors to logits ``[units, classes]``; -inf excludes a class.
    """

    vectors: Tensor
    logits: Callable[[Tensor], Tensor]


class Teacher:
    """Trained module from which another one learns (distillation).

    It is not a submodule of the student. Its network is in eval mode; the module itself stays in train mode, for the
    states of training batches. Checkpoints contain its state of earlier batches, not its weights.

    Args:
        module: Trained module; its weights are frozen in place.
        weight: w of the loss.
        temperature: T of the loss.
    """

    def __init__(self, module: "TrainingModule", weight: float, temperature: float) -> None:
        self.module = module.requires_grad_(False)
        self.module.train()  # a language model has separate states for training batches
        self.module.network.eval()
        self.weight = weight
        self.temperature = temperature

    def taught(self, loss: Tensor, predictions: Sequence[Prediction], batch: Any) -> Tensor:
        """Return (1 - w)·loss + w·Σ divergence, summed over the units of a batch.

        The divergences are those of student and teacher for each of their predictions. Moves the teacher to the loss's
        device; no gradient flows into it.

        Args:
            loss: Task's own loss, summed.
            predictions: Predictions of the student.
            batch: Batch for the teacher.

        Raises:
            ValueError: Student and teacher have different numbers of predictions.
        """
        if self.module.device != loss.device:
            self.module.to(loss.device)
        with torch.no_grad():
            targets = [prediction.logits(prediction.vectors) for prediction in self.module.predictions(batch)]
        distance = torch.zeros_like(loss)
        for prediction, teacher in zip(predictions, targets, strict=True):
            distance = distance + divergence(prediction.logits(prediction.vectors), teacher, self.temperature)
        return (1 - self.weight) * loss + self.weight * distance


def divergence(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    """Return Σ T²·KL(softmax(teacher / T) ‖ softmax(student / T)) over rows, in float32.

    Args:
        student: Logits ``[units, classes]``.
        teacher: Logits ``[units, classes]``; classes with -inf add 0.
        temperature: T.
    """
    log_q = (student.float() / temperature).log_softmax(-1)
    log_p = (teacher.float() / temperature).log_softmax(-1)
    gap = torch.where(log_p.isfinite(), log_p - log_q, 0.0)
    return temperature**2 * (log_p.exp() * gap).sum()


class Batch(Protocol):
    """Interface of a training batch."""

    @property
    def window_units(self) -> int:
        """Units (target tokens, items) of the batch's whole accumulation window, over all processes."""


class Loss(NamedTuple):
    """Summed loss of a batch.

    Attributes:
        total: Loss to minimize, summed over ``units``, differentiable.
        nll: Negative log-likelihood in nats, summed over ``units``, for reports.
        units: Number of units (target tokens, items).
        hits: Number of hit units by name of a score: ``{"accuracy": correct}``. Validation divides it by the units.
        predictions: Predictions behind the loss: see :meth:`TrainingModule.predictions`.
    """

    total: Tensor
    nll: Tensor
    units: int
    hits: Mapping[str, Tensor] = MappingProxyType({})
    predictions: Sequence[Prediction] = ()


class TrainingModule(nn.Module):
    """Network with its loss, optimizer and schedule; tasks implement `loss`.

    The sum of a micro-batch is divided by the units of the whole accumulation window. Every unit therefore has the same
    weight in the gradient, whatever the division into micro-batches and processes.

    Args:
        network: Network to train; shared parameters of its maps are tied in place.
        optimizer: Builds the optimizer of the network's parameters with learning rate 1.
        schedule: Learning rate by optimizer step, counted from 1.

    Attributes:
        counted: Names of the hits in losses.
        trainer: Lightning's trainer during training, else ``None``.
        teacher: Teacher for distillation; ``None`` without one.
        frozen: Names of weights that come from another run; the state dict leaves them out.
    """

    counted: tuple[str, ...] = ()
    trainer: Any = None
    teacher: Teacher | None = None
    frozen: frozenset[str] = frozenset()

    def __init__(self, network: nn.Module, optimizer: OptimizerBuilder, schedule: Schedule) -> None:
        super().__init__()
        self.network = network
        self.make_optimizer = optimizer
        self.schedule = schedule

    @cached_property
    def changing(self) -> list[Structure]:
        """Structures that change during training, as they are at the first step."""
        return [part for part in self.network.modules() if isinstance(part, Structure) and part.temporary]

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    def state_dict(self, *arguments: Any, **keywords: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return torch's state dict without the weights in ``frozen``."""
        state: dict[str, Any] = super().state_dict(*arguments, **keywords)
        for name in self.frozen:
            state.pop(name, None)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Load a state dict as torch does.

        Weights in ``frozen`` that it lacks stay as they are.
        """
        if self.frozen:
            present = super().state_dict()
            state_dict = {**{name: present[name] for name in self.frozen}, **state_dict}
        return super().load_state_dict(state_dict, strict, assign)

    def loss(self, batch: Any) -> Loss:
        """Return the summed loss of a batch. Tasks implement it.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    def predictions(self, batch: Any) -> Sequence[Prediction]:
        """Return the predictions of a batch that teacher and student compare.

        This class supports none.

        Raises:
            PhmrunError: (exit 2) The task does not support distillation.
        """
        raise PhmrunError("the networks of this task learn from no teacher", where="distillation")

    def begin(self, data: Any) -> None:
        """Initialize the network from the data before a run's first step.

        Do nothing here.
        """

    def export_graph(self) -> ExportGraph:
        """Return the trained network as a function of tensors, for ``phmrun export``.

        This class supports none.

        Raises:
            PhmrunError: (exit 2) The task does not support export.
        """
        raise PhmrunError("the networks of this task cannot be exported")

    def training_step(self, batch: Batch, batch_index: int) -> dict[str, Any]:
        """Return "loss", "nll" and "units" of a batch.

        "nll" (detached) and "units" are those of :class:`Loss`. "loss" is the batch's share of the window's mean loss,
        with distillation if there is a teacher. It is multiplied by the numbers of micro-batches and processes, because
        Lightning divides by them. Structures that change during training first get the progress, (step + 1) /
        max_steps.
        """
        for structure in self.changing:
            structure.set_progress((self.trainer.global_step + 1) / self.trainer.max_steps)
        loss = self.loss(batch)
        total = self.teacher.taught(loss.total, loss.predictions, batch) if self.teacher else loss.total
        share = self.trainer.accumulate_grad_batches * self.trainer.world_size / batch.window_units
        return {"loss": total * share, "nll": loss.nll.detach(), "units": loss.units}

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Hook before each optimizer step, when the gradients are complete.

        Do nothing here.
        """

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Add state for exact resume to a checkpoint, in place.

        Do nothing here.
        """

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the state of :meth:`on_save_checkpoint`; here nothing."""

    def configure_optimizers(self) -> Any:
        """Return the optimizer and its schedule per optimizer step, in Lightning's form.

        The optimizer is fused if it supports that, unless the precision is "16-mixed". With "bf16-mixed", its own
        handling of scaled gradients is switched off.
        """
        precision = str(self.trainer.precision)
        # Only 16-mixed scales gradients, and Lightning cannot clip scaled gradients of a fused optimizer.
        optimizer = self.make_optimizer(self.network, fused=precision != "16-mixed")
        if precision == "bf16-mixed":
            optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        optimizer.register_step_post_hook(lambda done, *_: done.zero_grad())  # not kept beside the next activations
        scheduler = LambdaLR(optimizer, lambda step: self.schedule(step + 1))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def validation_scores(self, data: Any) -> dict[str, float]:
        """Return expensive validation scores; here none.

        Called only if ``training.monitor`` names one.
        """
        return {}

    def validate(self, batches: Iterable[Any]) -> dict[str, float]:
        """Return mean validation scores over the units of ``batches`` and all processes.

        The module is in eval mode meanwhile; its mode is restored, except after an error.

        Returns:
            ``loss`` (negative log-likelihood in nats), and the share of hit units (0 to 1) by name.

        Raises:
            ZeroDivisionError: The batches of all processes have no units.
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


def cross_entropy(logits: Tensor, targets: Tensor, *, smoothing: float = 0.0) -> Tensor:
    """Return the label-smoothed cross-entropy, summed over items, in nats.

    Σ_i (1 - ε)·(-log p_i[y_i]) + ε·mean_c(-log p_i[c]), where ε is ``smoothing``.
    """
    return F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


def criterion(name: str) -> Criterion:
    """Return the loss of a name.

    Raises:
        PhmrunError: (exit 2) There is no such loss.
    """
    loss: Criterion = LOSSES.get(name, where="training.loss")
    return loss


def build_network(family: str, config: Any, *sizes: int) -> nn.Module:
    """Build the network that ``model.network`` names.

    Args:
        family: Family of networks, as in :func:`phmrun.registry.networks`.
        config: Resolved config; a network class gets its model section and structures, a function all of it.
        *sizes: Sizes of vocabularies, and numbers of classes.

    Raises:
        PhmrunError: There is no such network in the family, it takes other arguments, or sizes and structures do not
            fit.
    """
    model: Any = config.model
    network: Any = networks(family).get(model.network, where="model.network")
    arguments = (model, sizes, config.structures) if isinstance(network, type) else (config, *sizes)
    try:
        inspect.signature(network).bind(*arguments)
    except TypeError as error:
        form = "Network(options, sizes, structures)" if isinstance(network, type) else "build(config, *sizes)"
        what = f"the network {model.network!r} cannot be called as {form}: {error}"
        hint = "`phmrun new network NAME` writes one that works."
        raise PhmrunError(what, where=place_of(network), hint=hint) from error
    built: nn.Module = cast(Any, network)(*arguments)
    return built


def seed_everything(seed: int) -> None:
    """Seed the global generators of torch (GPUs included), NumPy and Python.

    NumPy's seed is ``seed`` modulo 2³².
    """
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def build_module(config: Experiment, *sizes: int) -> TrainingModule:
    """Build the module of an experiment on the current default device.

    Matrices that the config's ``maps`` name then get their own structures.

    Args:
        config: Resolved config.
        *sizes: Sizes of vocabularies and label sets.

    Raises:
        PhmrunError: (exit 2) Sizes, structures or names of maps do not fit, or a matrix is too large.
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
        replace_structures(module.network, {section.name: section.layer.arguments for section in config.maps})
    return module
