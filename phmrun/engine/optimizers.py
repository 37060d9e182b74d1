"""Optimizers of the registry, with one learning rate for all parameters or one per factor.

A step of Adam changes each entry of a matrix by about lr, so an output that sums d_in products moves by lr·d_in. Each
of the N factors of a structured matrix should move the output by an N-th of the dense matrix's change. With a dense
matrix [k, d], the rate of a factor [d_out, d_in] is therefore:

- Adam: lr·d / (d_in·N) (Qiu et al., "Compute better spent", ICML 2024, section 4, and their code).
- Gradient descent: lr·(d_out/d_in) / (k/d) / N, as in µP (Yang et al. 2022).
- LAMB, whose steps are relative to a parameter's norm (You et al. 2020): lr / N.

Decoupled weight decay removes the share lr·λ of each entry per step, and N times as much from a product of N factors.
Each factor therefore decays by lr·λ/N, whatever its rate.
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
from phmrun.engine.lazy_adam import LazyAdam, table_groups
from phmrun.engine.muon import MuonWithAdamW, muon_groups, muon_numbers
from phmrun.errors import PhmrunError
from phmrun.grouping import grouped_by
from phmrun.layers import Structure
from phmrun.layers.counterparts import is_conv1d
from phmrun.layers.network import section_of
from phmrun.registry import OPTIMIZERS, load

Rule = Literal["adam", "gradient", "norm"]
"""Size of an optimizer's step: learning rate, times the gradient, or times the norm of the parameter."""


@dataclass(frozen=True)
class Kind:
    """Optimizer with the facts that the engine needs.

    An optimizer that is registered without a `Kind` has the defaults.

    Args:
        optimizer: Subclass of `torch.optim.Optimizer`, function with its signature, or ``module:name`` of either.
        state: Numbers of optimizer state per trainable weight, or a function that returns those of a network. Default:
            2, as Adam.
        shrinks: True if weight decay is decoupled: it removes the share lr·λ of each entry per step.
        rule: Size of a step, for the rates of factors: learning rate ("adam"), gradient ("gradient"), or learning rate
            times norm of the parameter ("norm").
        groups: Returns the parameter groups of a network. Default: one group.
    """

    optimizer: str | Callable[..., Optimizer]
    state: int | Callable[[nn.Module], int] = 2
    shrinks: bool = False
    rule: Rule = "adam"
    groups: Callable[[nn.Module], list[dict[str, Any]]] | None = None

    def numbers(self, network: nn.Module) -> int:
        """Return the size of the optimizer's state for a network, in numbers."""
        if callable(self.state):
            return self.state(network)
        return self.state * sum(weight.numel() for weight in network.parameters() if weight.requires_grad)


ADAM = Kind("torch.optim:Adam")
ADAMW = Kind("torch.optim:AdamW", shrinks=True)
ADAMAX = Kind("torch.optim:Adamax")
NADAM = Kind("torch.optim:NAdam")
RADAM = Kind("torch.optim:RAdam")
SGD = Kind("torch.optim:SGD", state=0, shrinks=True, rule="gradient")
LAMB = Kind("pytorch_optimizer:Lamb", rule="norm")
"""Needs the extra ``optimizers``."""
LAZY_ADAM = Kind(LazyAdam, groups=table_groups)
MUON = Kind(MuonWithAdamW, state=muon_numbers, shrinks=True, groups=muon_groups)
REQUIRED = {
    "clip_update": "Use training.optimizer.name=lazy-adam, or training.clip to clip gradients.",
    "weight_decay": "Set it to 0, or use training.optimizer.name=adam or adamw.",
}
"""Hint by each setting that is refused, unless 0, for optimizers without a parameter of this name."""


def optimizer_kind(name: str) -> Kind:
    """Return the optimizer of a name.

    One registered without :class:`Kind` gets defaults.

    Raises:
        PhmrunError: (exit 2) There is no such optimizer.
    """
    optimizer = OPTIMIZERS.get(name, where="training.optimizer.name")
    return optimizer if isinstance(optimizer, Kind) else Kind(optimizer)


class OptimizerBuilder(Protocol):
    """Builder of an optimizer for parameters or a network."""

    def __call__(self, parameters: Iterable[nn.Parameter] | nn.Module, *, fused: bool = True) -> Optimizer:
        """Return the optimizer; with ``fused``, one kernel updates all parameters."""


def build_optimizer(
    parameters: Iterable[nn.Parameter] | nn.Module,
    *,
    name: str = "adam",
    betas: tuple[float, float] = (0.9, 0.98),
    eps: float = 1e-9,
    weight_decay: float = 0.0,
    rates: str = "one",
    map_rate: float = 1.0,
    clip_update: float = 0.0,
    fused: bool = True,
) -> Optimizer:
    """Build an optimizer with learning rate 1, which the schedule multiplies.

    Other settings than :data:`REQUIRED` are ignored if the optimizer's signature does not have them.

    Args:
        parameters: Parameters, or a network, which muon needs.
        name: Name in the registry: "adam", a variant of it, "sgd", "lamb" (You et al. 2020) …
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the denominator of the update.
        weight_decay: L2 penalty; decoupled for adamw; part of the update before its scaling for lamb.
        rates: "one" rate for all parameters, or rates by the shapes of factors ("structure"), for networks only.
        map_rate: Factor of the learning rate of all matrices but embeddings and output; for networks only.
        clip_update: Maximum norm of the update of all parameters together, for "lazy-adam" only; 0: no limit.
        fused: Update all parameters by one kernel if the optimizer supports it.

    Raises:
        PhmrunError: (exit 2) There is no such optimizer, its package is not installed, it lacks a required setting, or
            it has parameter groups of its own and the rates are not one.
        TypeError: What is built is no ``torch.optim.Optimizer``.
    """
    kind = optimizer_kind(name)
    try:
        optimizer = load(kind.optimizer) if isinstance(kind.optimizer, str) else kind.optimizer
    except ModuleNotFoundError as error:
        what = f"the optimizer {name!r} needs the package {str(error.name).replace('_', '-')}"
        where = "training.optimizer.name"
        raise PhmrunError(what, where=where, hint="Install it with: pip install 'phmrun[optimizers]'") from error
    supported = inspect.signature(optimizer).parameters
    settings: dict[str, Any] = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": fused}
    settings |= {"clip_update": clip_update, "weight_decouple": False}  # Lamb as published
    for key, hint in REQUIRED.items():
        if settings[key] and key not in supported:
            raise PhmrunError(f"the optimizer {name!r} has no {key}", where=f"training.optimizer.{key}", hint=hint)
    trained: Any = parameters
    if isinstance(parameters, nn.Module):
        structured = rates != "one" or map_rate != 1
        if structured and kind.groups:
            what = f"the optimizer {name!r} takes one learning rate: it has parameter groups of its own"
            raise PhmrunError(what, where="training.optimizer.rates", hint="rates: one, map_rate: 1; or use adamw.")
        trained = kind.groups(parameters) if kind.groups else parameters.parameters()
        if structured:
            by_shape = rates == "structure"
            trained = parameter_groups(parameters, name, weight_decay, by_shape=by_shape, map_rate=map_rate)
    built = optimizer(trained, lr=1.0, **{key: value for key, value in settings.items() if key in supported})
    if not isinstance(built, Optimizer):
        raise TypeError(f"the optimizer {name!r} is {type(built).__name__}, not torch.optim.Optimizer")
    return built


def optimizer_from(config: OptimizerConfig) -> OptimizerBuilder:
    """Return :func:`build_optimizer` with a config's settings."""
    return partial(build_optimizer, **config.model_dump(exclude={"lr"}))


class Rate(NamedTuple):
    """Factors of one parameter.

    Attributes:
        name: Name of the parameter in the network.
        rate: Factor of the learning rate.
        decay: Factor of the weight decay.
    """

    name: str
    rate: float
    decay: float


def rates(
    network: nn.Module, optimizer: str, *, by_shape: bool = True, map_rate: float = 1.0
) -> Iterator[tuple[Rate, nn.Parameter]]:
    """Yield each trainable parameter with its rate, in the network's order.

    Shared parameters occur once. Decay is 1; if the optimizer's weight decay is decoupled, it is 1 / (N · rate) for one
    of N factors, N = 1 for other parameters.

    Args:
        network: The network.
        optimizer: Name of its optimizer.
        by_shape: Rates of factors follow from their shapes; False: all parameters count as no factors.
        map_rate: Factor of the learning rate of all matrices but embeddings and output.
    """
    seen: set[int] = set()
    for path, module in network.named_modules():
        factors = module.factors_read() if isinstance(module, Structure) else {}
        for label, parameter in module.named_parameters(recurse=False):
            if id(parameter) in seen or not parameter.requires_grad:
                continue
            seen.add(id(parameter))
            name = f"{path}.{label}" if path else label
            rate, share = 1.0, 1
            if by_shape and isinstance(module, Structure) and label in factors:
                rate, share = _rate(module, *factors[label], len(factors), optimizer), len(factors)
            plain = parameter.ndim == 2 and (isinstance(module, nn.Linear) or is_conv1d(module))
            if (plain or isinstance(module, Structure)) and section_of(path, network) == "layer":
                rate *= map_rate
            decay = 1 / (share * rate) if optimizer_kind(optimizer).shrinks else 1.0
            yield Rate(name, rate, decay), parameter


def parameter_groups(network: nn.Module, optimizer: str, weight_decay: float, **options: Any) -> list[dict[str, Any]]:
    """Return groups of the trainable parameters with equal rate and decay.

    Keys: "params", "lr" (the rate) and "weight_decay". The given ``weight_decay`` is multiplied by each group's factor
    of decay. Options are those of :func:`rates`.
    """
    groups = grouped_by(rates(network, optimizer, **options), lambda pair: (pair[0].rate, pair[0].decay))
    return [
        {"params": [parameter for _, parameter in pairs], "lr": rate, "weight_decay": weight_decay * decay}
        for (rate, decay), pairs in groups.items()
    ]


def rate_table(network: nn.Module, config: OptimizerConfig) -> list[Rate]:
    """Return the rate of each trainable parameter, in the network's order.

    Empty if ``rates`` is "one" and ``map_rate`` 1. Layer numbers in names are replaced by *, and the last layer's rates
    stand for all.
    """
    if config.rates == "one" and config.map_rate == 1:
        return []
    by_shape = config.rates == "structure"
    table = [rate for rate, _ in rates(network, config.name, by_shape=by_shape, map_rate=config.map_rate)]
    by_place = {re.sub(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)", "*", rate.name): rate for rate in table}
    return [Rate(name, rate.rate, rate.decay) for name, rate in by_place.items()]


def _rate(structure: Structure, d_out: int, d_in: int, factors: int, optimizer: str) -> float:
    """Return the factor of the learning rate for a matrix ``[d_out, d_in]``.

    It is one of N = ``factors`` matrices of a structure W ``[k, d]``. The optimizer's rule decides: "norm" 1/N,
    "gradient" (d_out/d_in) / (k/d) / N, any other (d/d_in) / N.
    """
    k, d = structure.out_features, structure.in_features
    rule = optimizer_kind(optimizer).rule
    if rule == "norm":
        return 1 / factors
    if rule == "gradient":
        return (d_out / d_in) / (k / d) / factors
    return d / d_in / factors
