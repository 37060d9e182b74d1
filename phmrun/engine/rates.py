"""What each parameter gets of learning rate and weight decay: one rate for all, or one by the shape of each factor.

A step of Adam changes every number of a matrix by about the learning rate, so that an output that sums d_in products of
it moves by lr·d_in. In a product of N factors each is to move the output by an N-th of what the dense matrix [k, d] in
its place would: a factor of d_in gets lr·d / (d_in·N) (Qiu et al., "Compute better spent", ICML 2024, section 4, and
their code). With gradient descent a step is as large as the gradient, and d_out/d_in takes the place of 1/d_in, as in
µP (Yang et al. 2022). LAMB measures steps in parts of a parameter's norm (You et al. 2020), so that only N remains.

Decoupled weight decay takes lr·λ of every number at each step, and from a product of N factors N times as much: here it
takes lr·λ/N of each factor, whatever its rate.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import nn

from phmrun.layers import Structure

DECAYING = ("adamw", "sgd")
"""Optimizers that take a share, lr·λ, of every number at each step."""


class Rate(NamedTuple):
    """What one parameter gets.

    Attributes:
        name: Its name in the network.
        rate: What multiplies the learning rate.
        decay: What multiplies the weight decay.
    """

    name: str
    rate: float
    decay: float


def rates(network: nn.Module, optimizer: str) -> Iterator[tuple[Rate, nn.Parameter]]:
    """The rate of every parameter that is trained, shared ones once, in the order of the network.

    Args:
        network: Holds structures, or is one.
        optimizer: Its name in the configuration.
    """
    seen: set[int] = set()
    for path, module in network.named_modules():
        factors = module.factors_read() if isinstance(module, Structure) else {}
        for label, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen or not parameter.requires_grad:
                continue
            seen.add(id(parameter))
            rate, decay = 1.0, 1.0
            if isinstance(module, Structure) and label in factors:
                rate = _rate(module, *factors[label], len(factors), optimizer)
                decay = 1 / (len(factors) * rate) if optimizer in DECAYING else 1.0
            yield Rate(f"{path}.{label}" if path else label, rate, decay), parameter


def parameter_groups(network: nn.Module, optimizer: str, weight_decay: float) -> list[dict[str, Any]]:
    """The parameters in groups of equal rate and decay, as torch's optimizers take them, for a learning rate of 1."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for rate, parameter in rates(network, optimizer):
        groups.setdefault((rate.rate, rate.decay), []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay * decay}
        for (rate, decay), parameters in groups.items()
    ]


def rate_table(network: nn.Module, optimizer: str) -> list[Rate]:
    """The rates, the same place of every layer once: its number is a *."""
    found = {re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", rate.name): rate for rate, _ in rates(network, optimizer)}
    return [Rate(name, rate.rate, rate.decay) for name, rate in found.items()]


def _rate(structure: Structure, d_out: int, d_in: int, factors: int, optimizer: str) -> float:
    """What multiplies the learning rate of a factor ``[d_out, d_in]``, one of so many."""
    k, d = structure.out_features, structure.in_features
    if optimizer == "lamb":
        return 1 / factors
    if optimizer == "sgd":
        return (d_out / d_in) / (k / d) / factors
    return d / d_in / factors
