"""Calibration on data: second moments of map inputs, and mean loss."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.config import Experiment
from phmrun.engine.data import build_data, contents
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError
from phmrun.layers.attention import MultiheadAttention
from phmrun.layers.linear import Linear
from phmrun.layers.lstm import LSTM


def calibration_batches(trained: TrainedModel, config: Experiment, batches: int) -> list[Any]:
    """Return the first ``batches`` training batches of an experiment.

    There are fewer if an epoch has fewer. The data are prepared, and their vocabulary compared with the run's. With 0
    batches and the run's own config, nothing is read.

    Raises:
        PhmrunError: The data have another vocabulary than the run.
    """
    if not batches and config == trained.config:
        return []
    data = build_data(config)
    data.prepare()
    if contents(data.vocabulary) != contents(trained.vocabulary):
        hint = "For translation, set data.vocabulary.path to the run's vocabulary; other tasks need the run's own data."
        raise PhmrunError("the vocabulary of these data is not the run's", where="data", hint=hint)
    return list(islice(data.train_dataloader(), batches))


@torch.no_grad()
def input_covariances(module: TrainingModule, batches: Sequence[Any]) -> dict[str, Tensor]:
    """Return second moments E[x xᵀ] of each linear map's inputs, by name.

    Matrices are float32 ``[in_features, in_features]``, summed in float64. Runs all batches, and leaves the module in
    eval mode. A joint query–key–value map in cross-attention reads target and source vectors; its moments average over
    both. LSTM gates read the inputs, and the outputs of the previous step. Vectors of padding count, except
    those of LSTMs. Maps that no batch reaches are missing.
    """
    sums: dict[str, Tensor] = {}
    counts: dict[str, int] = {}

    def add(inputs: Tensor, *names: str) -> None:
        """Add inputs ``[..., in_features]`` to the sums of these maps."""
        vectors = inputs.detach().reshape(-1, inputs.shape[-1]).double()
        product = vectors.t() @ vectors
        for name in names:
            sums[name] = sums.get(name, torch.zeros((), dtype=torch.float64)) + product
            counts[name] = counts.get(name, 0) + len(vectors)

    def of_linear(name: str, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Hook: add a linear map's inputs."""
        add(inputs[0], name)

    def of_attention(name: str, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Hook: add the inputs of a joint map in cross-attention.

        It is split there instead of called. Self-attention adds nothing here.
        """
        if len(inputs) > 1 and inputs[1] is not None:  # cross-attention splits its joint map instead of calling it
            add(inputs[0], name)
            add(inputs[1], name)

    def of_lstm(name: str, lstm: LSTM, number: int, read: Tensor, before: Tensor) -> None:
        """Observer: add the vectors that a layer's input and recurrent maps read."""
        for kind, vectors in (("input", read), ("recurrent", before)):
            maps = lstm.cells[number].get_submodule(kind)
            add(vectors, *(f"{name}.cells.{number}.{kind}.{gate}" for gate, _ in maps.named_children()))

    with ExitStack() as hooks:
        for name, child in module.network.named_modules():
            if isinstance(child, Linear):
                hooks.enter_context(child.register_forward_pre_hook(partial(of_linear, name)))
            elif isinstance(child, MultiheadAttention) and len(child.project) == 1:
                hooks.enter_context(child.register_forward_pre_hook(partial(of_attention, f"{name}.project.0")))
            elif isinstance(child, LSTM):
                child.observer = partial(of_lstm, name, child)
                hooks.callback(setattr, child, "observer", None)
        mean_loss(module, batches)
    return {name: (total / counts[name]).float() for name, total in sums.items()}


def output_gradients(module: TrainingModule, batches: Sequence[Any]) -> dict[str, float]:
    """Return the weight of each linear map's output error in the loss, by name.

    An error e of the outputs y, independent of the loss's gradient g there, raises the loss by about
    Σ (g·e)² / 2 = E‖e‖² · Σ‖g‖² / 2k, summed over all vectors (Fisher information; k outputs). Returned is
    Σ‖g‖² / 2k by unit, so that its product with E‖e‖² is in nats per unit. Maps that are not called are missing.
    """
    sums: dict[str, float] = {}
    units = 0
    module.train()  # in eval mode some losses have no gradient
    module.network.eval()
    outputs: list[tuple[str, Tensor]] = []
    with ExitStack() as hooks:
        hooks.callback(module.eval)
        for name, child in module.network.named_modules():
            if isinstance(child, Linear):
                note = partial(lambda name, _, __, output: outputs.append((name, output)), name)
                hooks.enter_context(child.register_forward_hook(note))
        for batch in batches:
            outputs.clear()
            loss = module.loss(batch)
            units += loss.units
            tensors = [output for _, output in outputs]
            gradients = torch.autograd.grad(loss.total, tensors, allow_unused=True) if tensors else ()
            for (name, _), gradient in zip(outputs, gradients, strict=True):
                if gradient is not None:
                    sums[name] = sums.get(name, 0.0) + float(gradient.square().sum()) / (2 * gradient.shape[-1])
    return {name: total / units for name, total in sums.items()}


@torch.no_grad()
def mean_loss(module: TrainingModule, batches: Sequence[Any]) -> float:
    """Return the mean negative log-likelihood per unit over the batches, in nats.

    It is the sum of all losses by the sum of all units. Leaves the module in eval mode. Label smoothing does not count.

    Raises:
        ZeroDivisionError: There are no batches.
    """
    module.eval()
    losses = [module.loss(batch) for batch in batches]
    return float(sum(float(loss.nll) for loss in losses) / sum(loss.units for loss in losses))
