"""Change of a layer's output after one optimizer step of each factor."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phmrun.engine.optimizers import Rate, rates
from phmrun.layers import Linear


class Movement(NamedTuple):
    """Change of the output by a factor's step, relative to a dense matrix's step."""

    factor: str  # the parameter that is moved; the others stay
    one: float  # with the plain learning rate
    structure: float  # with the learning rate for the factor's shape (:mod:`phmrun.engine.optimizers`)


def movements(
    structure: str, options: Mapping[str, Any], shape: tuple[int, int], optimizer: str = "adam", draws: int = 5
) -> list[Movement]:
    """Return the change of the output by each factor's first step.

    Each change is relative to that of a dense layer, a mean over random layers. The step is the gradient's sign times
    the learning rate (Adam's first step), or the gradient times it ("sgd"). 64 inputs and their output gradients are
    normal, the same for both layers. Sets torch's global seed.

    Args:
        structure: Name of the structure.
        options: Its options.
        shape: Rows and columns of the matrix.
        optimizer: "adam" or "sgd".
        draws: Number of layers.

    Raises:
        PhmrunError: The structure does not fit the shape.
    """
    sums: dict[str, tuple[float, float]] = {}
    rows, columns = shape
    for seed in range(draws):
        torch.manual_seed(seed)
        inputs, gradient = torch.randn(64, columns), torch.randn(64, rows)
        (dense,) = _moved(Linear(columns, rows, bias=False), inputs, gradient, optimizer).values()
        layer = Linear(columns, rows, bias=False, structure=structure, **options)
        for rate, (plain, structured) in _moved(layer, inputs, gradient, optimizer).items():
            name = rate.name.removeprefix("structure.")
            before = sums.get(name, (0.0, 0.0))
            sums[name] = (before[0] + plain / dense[0], before[1] + structured / dense[0])
    return [Movement(name, plain / draws, structured / draws) for name, (plain, structured) in sums.items()]


def _moved(linear: Linear, inputs: Tensor, gradient: Tensor, optimizer: str) -> dict[Rate, tuple[float, float]]:
    """Return by parameter the norm of the output's change after one step.

    The first is with the plain learning rate 1e-4, the second with 1e-4 times the parameter's own rate. Parameters are
    restored after each step; a missing gradient counts as 0.
    """
    before = linear(inputs)
    before.backward(gradient)
    changes = {}
    for rate, parameter in rates(linear, optimizer):
        slope = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        step = 1e-4 * (slope if optimizer == "sgd" else slope.sign())
        distances = []
        for share in (1.0, rate.rate):
            with torch.no_grad():
                parameter.add_(step * share)
                distances.append(float((linear(inputs) - before).norm()))
                parameter.sub_(step * share)
        changes[rate] = (distances[0], distances[1])
    return changes
