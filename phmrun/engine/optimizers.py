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

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from phmrun.config import OptimizerConfig
from phmrun.errors import PhmrunError
from phmrun.layers import Embedding, Structure
from phmrun.layers.network import scope_of
from phmrun.layers.structures.dense import Dense
from phmrun.registry import OPTIMIZERS, load

SCALE = "match_rms_adamw"
"""Torch's name of the scale of an update."""
APART = ("embedding", "output")
"""Parts of a network whose matrices are none of ``layer``; AdamW updates them, not Muon."""


class MuonWithAdamW(Optimizer):
    """torch.optim.Muon for groups with ``muon=True``, torch.optim.AdamW for the others (Jordan et al. 2024).

    Muon replaces the mean gradient of a matrix by its nearest orthogonal matrix. The update is scaled by
    0.2·√max(d_out, d_in), the usual size of AdamW's (Liu et al., "Muon is scalable for LLM training", section 2.2), so
    that one learning rate and one weight decay serve both. Both steps are torch's own.

    Args:
        params: Parameters, of which matrices are Muon's; or groups with the key ``muon``.
        lr: Learning rate of both.
        betas: Decay of AdamW's running means; Muon's momentum is 0.95, after Nesterov.
        eps: Added to the denominator of AdamW's update.
        weight_decay: Decoupled weight decay of both.
        fused: Update AdamW's parameters by one kernel.

    Raises:
        PhmrunError: This torch has no Muon (before 2.9).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        fused: bool = False,
    ) -> None:
        if not hasattr(torch.optim, "Muon"):
            what, hint = f"torch {torch.__version__} has no Muon", "Muon needs torch 2.9 or later; or use adamw."
            raise PhmrunError(what, where="training.optimizer.name", hint=hint)
        matrices, others = _divided(list(params))
        self._parts: list[Optimizer] = []
        if matrices:
            self._parts.append(torch.optim.Muon(matrices, lr=lr, weight_decay=weight_decay, adjust_lr_fn=SCALE))
        if others:
            self._parts.append(AdamW(others, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, fused=fused))
        super().__init__([group for part in self._parts for group in part.param_groups], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, in place.

        Returns the loss of ``closure``, None without one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        first = 0
        for part in self._parts:  # a restored state has other groups than those that the parts were built with
            count = len(part.param_groups)
            part.param_groups, part.state = self.param_groups[first : first + count], self.state
            first += count
            part.step()
        return loss


def muon_groups(network: nn.Module) -> list[dict[str, Any]]:
    """Return a network's trainable parameters in up to two groups.

    Matrices outside of embedding and output have ``muon=True``, all other parameters ``muon=False``. An empty group is
    left out.
    """
    parts: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            parts[parameter.ndim == 2 and scope_of(name.rpartition(".")[0]) not in APART].append(parameter)
    return [{"params": parameters, "muon": muon} for muon, parameters in parts.items() if parameters]


def _divided(params: list[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the groups of Muon and those of AdamW, without the key ``muon``.

    Parameters without groups are one group. A group without this key is divided: matrices are Muon's. Empty groups are
    left out.
    """
    groups = params if params and isinstance(params[0], dict) else [{"params": params}]
    matrices: list[dict[str, Any]] = []
    others: list[dict[str, Any]] = []
    for group in groups:
        parameters, rest = list(group["params"]), {key: value for key, value in group.items() if key != "params"}
        muon = rest.pop("muon", None)
        for part, wanted in ((matrices, True), (others, False)):
            chosen = [p for p in parameters if (p.ndim == 2 if muon is None else muon) is wanted]
            part += [{**rest, "params": chosen}] if chosen else []
    return matrices, others


class LazyAdam(Optimizer):
    """Adam of Dozat's Parser-v2: ε inside the root, lazy rows of tables, clipped updates instead of gradients.

    Update of a weight: lr · m̂ / √(v̂ + ε), with the bias-corrected means m̂ and v̂ of the gradient and of its square.
    Source: github.com/tdozat/Parser-v2, parser/neural/optimizers (Apache-2.0). There, rows that a batch reads with a
    gradient of zero, those of words that are all dropped, are updated by their means (radam_optimizer.py:82); here they
    wait.

    Args:
        params: Parameters or parameter groups. In a group with ``lazy=True``, rows whose gradient is zero are not
            updated, keep their means and do not count the step.
        lr: Learning rate.
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the mean of the squares, inside the root.
        clip_update: Maximum norm of the update of all parameters together; 0: no limit.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.9),
        eps: float = 1e-12,
        clip_update: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "lazy": False})
        self.clip_update = clip_update

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters that have a gradient, in place.

        Entries of gradients that are not finite count as 0. Returns the loss of ``closure``, None without one. With
        ``clip_update``, all updates are scaled down together if their joint norm exceeds it.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        updates = [
            (parameter, self._update(parameter, group))
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        scale = 1.0
        if self.clip_update and updates:
            norm = float(torch.stack([update.norm() for _, update in updates]).norm())
            scale = min(1.0, self.clip_update / norm) if norm else 1.0
        for parameter, update in updates:
            parameter.sub_(update, alpha=scale)
        return loss

    def _update(self, parameter: Tensor, group: dict[str, Any]) -> Tensor:
        """Return the update of a parameter ``[…]``, and advance its state in place.

        The learning rate is included. Numbers of the gradient that are not finite count as 0. State is created at the
        first call. In lazy groups, rows whose gradient is zero get 0 and keep their state.
        """
        gradient = torch.nan_to_num(parameter.grad, 0.0, 0.0, 0.0)  # type: ignore[arg-type]
        state, (mean_decay, square_decay) = self.state[parameter], group["betas"]
        if not state:
            rows = (len(parameter), *[1] * (parameter.dim() - 1)) if group["lazy"] else ()
            state["step"] = torch.zeros(rows, dtype=parameter.dtype, device=parameter.device)
            state["mean"], state["square"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        read = gradient.flatten(1).any(1).view_as(state["step"]) if group["lazy"] else None
        step = state["step"] + 1
        mean = state["mean"].lerp(gradient, 1 - mean_decay)
        square = state["square"].lerp(gradient.square(), 1 - square_decay)
        if read is not None:
            step = step.where(read, state["step"])
            mean, square = mean.where(read, state["mean"]), square.where(read, state["square"])
        state["step"], state["mean"], state["square"] = step, mean, square
        counted = step.clamp(min=1)  # a row that was never read has zero means
        root = (square / (1 - square_decay**counted) + group["eps"]).sqrt()
        update = group["lr"] * (mean / (1 - mean_decay**counted)) / root
        return update if read is None else update * read


def table_groups(network: nn.Module) -> list[dict[str, Any]]:
    """Return two groups of parameters, the second the dense embedding tables.

    Keys: "params", and "lazy", which is True for the tables. Frozen parameters are included.

    An empty group is left out.
    """
    tables = {
        id(module.structure.matrix)
        for module in network.modules()
        if isinstance(module, Embedding) and isinstance(module.structure, Dense)
    }
    parameters = list(network.parameters())
    groups = [{"params": [p for p in parameters if (id(p) in tables) == lazy], "lazy": lazy} for lazy in (False, True)]
    return [group for group in groups if group["params"]]


Rule = Literal["adam", "gradient", "norm"]
"""Size of an optimizer's step: learning rate, times the gradient, or times the norm of the parameter."""


@dataclass(frozen=True)
class Kind:
    """Optimizer with the facts that the engine needs.

    An optimizer that is registered without a `Kind` has the defaults.

    Args:
        optimizer: Subclass of `torch.optim.Optimizer`, function with its signature, or ``module:name`` of either.
        state: Numbers of optimizer state per weight. Default: 2, as Adam.
        shrinks: True if weight decay is decoupled: it removes the share lr·λ of each entry per step.
        rule: Size of a step, for the rates of factors: learning rate ("adam"), gradient ("gradient"), or learning rate
            times norm of the parameter ("norm").
        groups: Returns the parameter groups of a network. Default: one group.
    """

    optimizer: str | Callable[..., Optimizer]
    state: int = 2
    shrinks: bool = False
    rule: Rule = "adam"
    groups: Callable[[nn.Module], list[dict[str, Any]]] | None = None


ADAM = Kind("torch.optim:Adam")
ADAMW = Kind("torch.optim:AdamW", shrinks=True)
ADAMAX = Kind("torch.optim:Adamax")
NADAM = Kind("torch.optim:NAdam")
RADAM = Kind("torch.optim:RAdam")
SGD = Kind("torch.optim:SGD", state=0, shrinks=True, rule="gradient")
LAMB = Kind("pytorch_optimizer:Lamb", rule="norm")
"""Needs the extra ``optimizers``."""
LAZY_ADAM = Kind(LazyAdam, groups=table_groups)
MUON = Kind(MuonWithAdamW, shrinks=True, groups=muon_groups)


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

    Settings that the optimizer's signature does not have are ignored, except ``clip_update``. An optimizer's own
    parameter groups are used only for a network with one rate for all.

    Args:
        parameters: Parameters, or a network.
        name: Name in the registry: "adam", a variant of it, "sgd", "lamb" (You et al. 2020) …
        betas: Decay of the running means of the gradient and of its square.
        eps: Added to the denominator of the update.
        weight_decay: L2 penalty; decoupled for adamw; part of the update before its scaling for lamb.
        rates: "one" rate for all parameters, or rates by the shapes of factors ("structure"), for networks only.
        map_rate: Factor of the learning rate of all matrices but embeddings and output; for networks only.
        clip_update: Maximum norm of the update of all parameters together, for "lazy-adam" only; 0: no limit.
        fused: Update all parameters by one kernel if the optimizer supports it.

    Raises:
        PhmrunError: (exit 2) There is no such optimizer, its package is not installed, it cannot clip updates, or it is
            muon with other rates than one.
        TypeError: What is built is no ``torch.optim.Optimizer``.
    """
    kind = optimizer_kind(name)
    try:
        optimizer = load(kind.optimizer) if isinstance(kind.optimizer, str) else kind.optimizer
    except ModuleNotFoundError as error:
        raise PhmrunError(
            f"the optimizer {name!r} needs the package {str(error.name).replace('_', '-')}",
            where="training.optimizer.name",
            hint="Install it with: pip install 'phmrun[optimizers]'",
        ) from error
    supported = inspect.signature(optimizer).parameters
    settings: dict[str, Any] = {"betas": betas, "eps": eps, "weight_decay": weight_decay, "fused": fused}
    settings["weight_decouple"] = False  # Lamb as published
    settings["clip_update"] = clip_update
    if clip_update and "clip_update" not in supported:
        what = f"the optimizer {name!r} clips no updates"
        hint = "Use training.optimizer.name=lazy-adam, or training.clip to clip gradients."
        raise PhmrunError(what, where="training.optimizer.clip_update", hint=hint)
    trained: Any = parameters
    if isinstance(parameters, nn.Module):
        structured = rates != "one" or map_rate != 1
        if structured and name == "muon":
            what = "muon takes one learning rate: its steps depend on no shape"
            raise PhmrunError(what, where="training.optimizer.rates", hint="rates: one, map_rate: 1; or use adamw.")
        trained = parameters.parameters()
        if structured:
            by_shape = rates == "structure"
            trained = parameter_groups(parameters, name, weight_decay, by_shape=by_shape, map_rate=map_rate)
        if kind.groups and not structured:
            trained = kind.groups(parameters)
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
            if isinstance(module, Structure) and scope_of(path) not in APART:
                rate *= map_rate
            decay = 1 / (share * rate) if optimizer_kind(optimizer).shrinks else 1.0
            yield Rate(name, rate, decay), parameter


def parameter_groups(network: nn.Module, optimizer: str, weight_decay: float, **options: Any) -> list[dict[str, Any]]:
    """Return groups of the trainable parameters with equal rate and decay.

    Keys: "params", "lr" (the rate) and "weight_decay". The given ``weight_decay`` is multiplied by each group's factor
    of decay. Options are those of :func:`rates`.
    """
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for rate, parameter in rates(network, optimizer, **options):
        groups.setdefault((rate.rate, rate.decay), []).append(parameter)
    return [
        {"params": parameters, "lr": rate, "weight_decay": weight_decay * decay}
        for (rate, decay), parameters in groups.items()
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
