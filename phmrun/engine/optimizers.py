"""Optimisers and learning-rate schedules, by the names that the config uses; one rate for all, or one for each factor.

A step of Adam changes every number of a matrix by about the learning rate, so that an output that sums d_in products of
it moves by lr·d_in. In a product of N factors each is to move the output by an N-th of what the dense matrix [k, d] in
its place would: a factor of d_in gets lr·d / (d_in·N) (Qiu et al., "Compute better spent", ICML 2024, section 4, and
their code). With gradient descent a step is as large as the gradient, and d_out/d_in takes the place of 1/d_in, as in
µP (Yang et al. 2022). LAMB measures steps in parts of a parameter's norm (You et al. 2020), so that only N remains.

Decoupled weight decay takes lr·λ of every number at each step, and from a product of N factors N times as much: here it
takes lr·λ/N of each factor, whatever its rate.
"""

import importlib
import inspect
import math
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

from torch import nn
from torch.optim import Optimizer

from phmrun.config import OptimizerConfig, TrainingConfig
from phmrun.errors import PhmrunError, unknown
from phmrun.layers import Structure

OPTIMIZERS = {
    "adam": "torch.optim:Adam",
    "adamw": "torch.optim:AdamW",
    "adamax": "torch.optim:Adamax",
    "nadam": "torch.optim:NAdam",
    "radam": "torch.optim:RAdam",
    "sgd": "torch.optim:SGD",
    "lamb": "pytorch_optimizer:Lamb",
}
"""Where each optimiser's class is found; those outside torch come with the extra ``optimizers``."""

STATE = {"sgd": 0}
"""Numbers that an optimiser keeps per weight; two, the running means of Adam, where it is not said here."""

Schedule = Callable[[int], float]


class OptimizerBuilder(Protocol):
    """Builds the optimiser of some parameters."""

    def __call__(self, parameters: Iterable[nn.Parameter] | nn.Module, *, fused: bool = True) -> Optimizer:
        """``fused``: whether one kernel updates all parameters."""


def build_optimizer(
    parameters: Iterable[nn.Parameter] | nn.Module,
    *,
    name: str = "adam",
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
    rates: str = "one",
    fused: bool = True,
) -> Optimizer:
    """An optimiser whose learning rate is 1, because the schedule gives the rate itself.

    Args:
        parameters: What to optimise: parameters, or a network with all of its.
        name: "adam", a variant of it, "sgd", or "lamb" (You et al. 2020).
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root in the update's denominator.
        weight_decay: L2 penalty; per unit of learning rate (adamw); part of the update that is then scaled (lamb).
        rates: "one" for all; "structure": of a network's factors, by their shapes.
        fused: Whether one kernel updates all parameters, where the optimiser has one.

    Raises:
        PhmrunError: There is no such optimiser, or its package is not installed.
    """
    if name not in OPTIMIZERS:
        raise unknown("optimizer", name, OPTIMIZERS, where="training.optimizer.name")
    module, _, attribute = OPTIMIZERS[name].partition(":")
    try:
        optimizer: type[Optimizer] = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        raise PhmrunError(
            f"the optimizer {name!r} needs the package {module.replace('_', '-')}",
            where="training.optimizer.name",
            hint="Install it with: pip install 'phmrun[optimizers]'",
        ) from error
    known = inspect.signature(optimizer).parameters
    wanted: dict[str, Any] = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": fused}
    wanted["weight_decouple"] = False  # of Lamb only, which is then as published
    trained: Any = parameters
    if isinstance(parameters, nn.Module):
        structured = rates == "structure"
        trained = parameter_groups(parameters, name, weight_decay) if structured else parameters.parameters()
    return optimizer(trained, lr=1.0, **{key: value for key, value in wanted.items() if key in known})  # type: ignore[call-arg]


def build_schedule(
    *,
    name: str = "noam",
    warmup: int = 4000,
    factor: float = 1.0,
    width: int = 512,
    lr: float | None = None,
    milestones: Sequence[int] = (),
    decay: float = 0.1,
    period: int = 5000,
    floor: float = 0.0,
    total: int = 1,
) -> Schedule:
    """The learning rate as a function of the optimizer step, counted from 1.

    Args:
        name: "noam": factor·width^-0.5·min(step^-0.5, step·warmup^-1.5) (Vaswani et al. 2017, section 5.3). The others
            rise linearly to lr and then: "inverse-sqrt": lr·√(warmup/step); "constant": lr; "steps": lr·decay^m after
            m milestones; "exponential": lr·decay^(step/period); "cosine": lr·(floor + (1 - floor)·(1 + cos(π·t))/2), t
            the share of the steps done; "linear": lr·(floor + (1 - floor)·(1 - t)).
        warmup: Length of the linear warm-up, in optimizer steps.
        factor: Multiplies the noam schedule.
        width: Width of the network, for noam.
        lr: Peak learning rate, for the others.
        milestones: Optimizer steps, in rising order.
        decay: What the rate is multiplied by after each of them, or in each period.
        period: Optimizer steps.
        floor: The last rate of "cosine" and "linear" in parts of the peak's.
        total: The optimizer step at which they reach it.

    Raises:
        PhmrunError: There is no such schedule.
    """
    peak = lr or 0.0
    rise = max(warmup, 1)

    def done(step: int) -> float:
        return min(max(step - warmup, 0) / max(total - warmup, 1), 1.0)

    def falling(step: int, left: float) -> float:
        return peak * min(step / rise, 1.0) * (floor + (1 - floor) * left)

    schedules: dict[str, Schedule] = {
        "noam": lambda step: factor * width**-0.5 * min(step**-0.5, step * rise**-1.5),
        "inverse-sqrt": lambda step: peak * min(step / rise, (rise / step) ** 0.5),
        "constant": lambda step: peak * min(step / rise, 1.0),
        "steps": lambda step: peak * min(step / rise, 1.0) * decay ** bisect_left(milestones, step),
        "exponential": lambda step: peak * min(step / rise, 1.0) * decay ** (step / period),
        "cosine": lambda step: falling(step, (1 + math.cos(math.pi * done(step))) / 2),
        "linear": lambda step: falling(step, 1 - done(step)),
    }
    if name not in schedules:
        raise unknown("schedule", name, schedules, where="training.schedule.name")
    return schedules[name]


def optimizer_from(config: OptimizerConfig) -> OptimizerBuilder:
    """What builds the optimiser that a config describes."""
    return partial(
        build_optimizer,
        name=config.name,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        rates=config.rates,
    )


def schedule_from(training: TrainingConfig, width: int) -> Schedule:
    """The learning rate that a config describes, for a network of this width."""
    return build_schedule(
        **training.schedule.model_dump(), width=width, lr=training.optimizer.lr, total=training.max_steps or 1
    )


DECAYING = ("adamw", "sgd")
"""Optimizers that take a share, lr·λ, of every number at each step."""


class Rate(NamedTuple):
    """What one parameter gets: what multiplies the learning rate, and what the weight decay."""

    name: str
    rate: float
    decay: float


def rates(network: nn.Module, optimizer: str) -> Iterator[tuple[Rate, nn.Parameter]]:
    """The rate of every parameter that is trained, shared ones once, in the order of the network."""
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
