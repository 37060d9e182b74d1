"""Optimizers by the names of the registry, with one learning rate for all parameters, or one for each factor.

A step of Adam changes every number of a matrix by about the learning rate, so that an output that sums d_in products of
it moves by lr·d_in. In a product of N factors each is to move the output by an N-th of what the dense matrix [k, d] in
its place would: a factor of d_in gets lr·d / (d_in·N) (Qiu et al., "Compute better spent", ICML 2024, section 4, and
their code). With gradient descent a step is as large as the gradient, and d_out/d_in takes the place of 1/d_in, as in
µP (Yang et al. 2022). LAMB measures steps in parts of a parameter's norm (You et al. 2020), so that only N remains.

Decoupled weight decay takes lr·λ of every number at each step, and from a product of N factors N times as much: here it
takes lr·λ/N of each factor, whatever its rate.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Protocol

from torch import nn
from torch.optim import Optimizer

from phmrun.config import OptimizerConfig
from phmrun.engine.lazy_adam import table_groups
from phmrun.errors import PhmrunError
from phmrun.layers import Structure
from phmrun.registry import OPTIMIZERS, load


@dataclass(frozen=True)
class Kind:
    """An optimizer and the facts that the engine needs about it; an optimizer announced without has the defaults.

    Args:
        optimizer: A `torch.optim.Optimizer`, or a function with its signature, or ``module:name`` of either.
        state: Numbers that it keeps per weight: two, the running means of Adam.
        shrinks: True if weight decay takes a share, lr·λ, of every number at each step.
        rule: Size of a step, which the rates of factors follow: as large as the learning rate ("adam"), as the gradient
            ("gradient"), or as the parameter's norm times the learning rate ("norm").
        groups: Divides the parameters of a network into groups, if not all are treated alike.
    """

    optimizer: str | Callable[..., Optimizer]
    state: int = 2
    shrinks: bool = False
    rule: Literal["adam", "gradient", "norm"] = "adam"
    groups: Callable[[nn.Module], list[dict[str, Any]]] | None = None

    def load(self) -> Callable[..., Optimizer]:
        """Import and return the optimizer."""
        loaded: Callable[..., Optimizer] = load(self.optimizer) if isinstance(self.optimizer, str) else self.optimizer
        return loaded


ADAM = Kind("torch.optim:Adam")
ADAMW = Kind("torch.optim:AdamW", shrinks=True)
ADAMAX = Kind("torch.optim:Adamax")
NADAM = Kind("torch.optim:NAdam")
RADAM = Kind("torch.optim:RAdam")
SGD = Kind("torch.optim:SGD", state=0, shrinks=True, rule="gradient")
LAMB = Kind("pytorch_optimizer:Lamb", rule="norm")
"""Comes with the extra ``optimizers``."""
LAZY_ADAM = Kind("phmrun.engine.lazy_adam:LazyAdam", groups=table_groups)


def optimizer_kind(name: str) -> Kind:
    """Return the optimizer of a name.

    Raises:
        PhmrunError: There is no such optimizer.
    """
    optimizer = OPTIMIZERS.get(name, where="training.optimizer.name")
    return optimizer if isinstance(optimizer, Kind) else Kind(optimizer)


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
    clip_update: float = 0.0,
    fused: bool = True,
) -> Optimizer:
    """An optimiser whose learning rate is 1, because the schedule gives the rate itself.

    Args:
        parameters: What to optimise: parameters, or a network with all of its.
        name: A name of the registry: "adam", a variant of it, "sgd", "lamb" (You et al. 2020) …
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the root in the update's denominator.
        weight_decay: L2 penalty; per unit of learning rate (adamw); part of the update that is then scaled (lamb).
        rates: "one" for all; "structure": of a network's factors, by their shapes.
        clip_update: Greatest norm of the update of all parameters together, of "lazy-adam" only; 0: no limit.
        fused: Whether one kernel updates all parameters, where the optimiser has one.

    Raises:
        PhmrunError: There is no such optimiser, or its package is not installed.
    """
    kind = optimizer_kind(name)
    try:
        optimizer = kind.load()
    except ModuleNotFoundError as error:
        raise PhmrunError(
            f"the optimizer {name!r} needs the package {str(error.name).replace('_', '-')}",
            where="training.optimizer.name",
            hint="Install it with: pip install 'phmrun[optimizers]'",
        ) from error
    known = inspect.signature(optimizer).parameters
    wanted: dict[str, Any] = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": fused}
    wanted["weight_decouple"] = False  # of Lamb only, which is then as published
    wanted["clip_update"] = clip_update
    if clip_update and "clip_update" not in known:
        what = f"the optimizer {name!r} clips no updates"
        hint = "Use training.optimizer.name=lazy-adam, or training.clip to clip gradients."
        raise PhmrunError(what, where="training.optimizer.clip_update", hint=hint)
    trained: Any = parameters
    if isinstance(parameters, nn.Module):
        structured = rates == "structure"
        trained = parameter_groups(parameters, name, weight_decay) if structured else parameters.parameters()
        if kind.groups and not structured:
            trained = kind.groups(parameters)
    return optimizer(trained, lr=1.0, **{key: value for key, value in wanted.items() if key in known})


def optimizer_from(config: OptimizerConfig) -> OptimizerBuilder:
    """What builds the optimiser that a config describes."""
    return partial(
        build_optimizer,
        name=config.name,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        rates=config.rates,
        clip_update=config.clip_update,
    )


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
                decay = 1 / (len(factors) * rate) if optimizer_kind(optimizer).shrinks else 1.0
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
    rule = optimizer_kind(optimizer).rule
    if rule == "norm":
        return 1 / factors
    if rule == "gradient":
        return (d_out / d_in) / (k / d) / factors
    return d / d_in / factors
