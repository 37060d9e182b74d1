"""How far one step of an optimizer moves a layer's output through each of its factors: what a learning rate does."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phmrun.engine.optimizers import Rate, rates
from phmrun.layers import Linear


class Movement(NamedTuple):
    """How far a factor's step moves the output, in parts of how far a dense matrix's moves it."""

    factor: str  # the parameter that is moved while the others stay
    one: float  # by the learning rate itself
    structure: float  # by the rate of the factor's shape (:mod:`phmrun.engine.optimizers`)


def movements(
    structure: str, options: Mapping[str, Any], shape: tuple[int, int], optimizer: str = "adam", draws: int = 5
) -> list[Movement]:
    """What a first step does to the output, the mean over fresh layers with fresh inputs and gradients.

    The step is the learning rate times the gradient's sign (Adam's first), or times the gradient ("sgd"). 64 inputs
    and the gradient at their outputs are drawn from a normal distribution, the same for both layers. ``shape`` is rows
    and columns of the matrix, ``draws`` the number of layers. A structure that does not fit is refused.
    """
    sums: dict[str, tuple[float, float]] = {}
    rows, columns = shape
    for seed in range(draws):
        torch.manual_seed(seed)
        inputs, gradient = torch.randn(64, columns), torch.randn(64, rows)
        (dense,) = _moved(Linear(columns, rows, bias=False), inputs, gradient, optimizer).values()
        layer = Linear(columns, rows, bias=False, structure=structure, **options)
        for rate, (one, structured) in _moved(layer, inputs, gradient, optimizer).items():
            name = rate.name.removeprefix("structure.")
            before = sums.get(name, (0.0, 0.0))
            sums[name] = (before[0] + one / dense[0], before[1] + structured / dense[0])
    return [Movement(name, one / draws, structured / draws) for name, (one, structured) in sums.items()]


def _moved(linear: Linear, inputs: Tensor, gradient: Tensor, optimizer: str) -> dict[Rate, tuple[float, float]]:
    """By parameter, how far the output moves by the learning rate and by the parameter's own."""
    before = linear(inputs)
    before.backward(gradient)
    found = {}
    for rate, parameter in rates(linear, optimizer):
        slope = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        step = 1e-4 * (slope if optimizer == "sgd" else slope.sign())
        distances = []
        for share in (1.0, rate.rate):
            with torch.no_grad():
                parameter.add_(step * share)
                distances.append(float((linear(inputs) - before).norm()))
                parameter.sub_(step * share)
        found[rate] = (distances[0], distances[1])
    return found
