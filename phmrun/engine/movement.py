"""Movement of a map's outputs by the first step of each factor, measured on batches.

The first optimizer step changes a factor f by lr·s, with s = sign(∂L/∂f) for Adam. The outputs of its map then move by

    m_f = √tr(ΔW C ΔWᵀ),   ΔW = W(f + lr·s) - W(f),   C = E[x xᵀ] of the map's inputs

and those of a dense matrix with the same entries by m_D, with s = sign(∂L/∂W). Each of the N trained factors of a map
is asked for m_D / N, so ``training.optimizer.rates: measured`` multiplies its learning rate by m_D / (N·m_f).

The formula of ``rates: structure`` estimates the same ratio from shapes alone. It holds for independent gradients; with
PHM n = 4, A moves the outputs 0.2 to 3 times as far as it says, depending on the number of inputs.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import torch
from torch import Tensor, nn

from phmrun.engine.calibration import input_covariances
from phmrun.engine.module import TrainingModule
from phmrun.engine.optimizers import Rule, optimizer_kind
from phmrun.layers import Structure, build_structure
from phmrun.layers.network import set_structure, structures_of

BATCHES = 4
"""Micro-batches at the beginning of training that are measured."""
FINENESS = 8
"""Multipliers are rounded to this part of an octave, 9 %, so that every processor finds the same ones."""


@dataclass(frozen=True)
class Movement:
    """First step of a factor.

    Attributes:
        share: m_f / m_D, a mean over batches and over the maps that share the factor.
        factors: N, the number of trained factors of its map.
    """

    share: float
    factors: int

    @property
    def multiplier(self) -> float:
        """Multiplier of the learning rate: m_D / (N·m_f), rounded.

        It is 1 if the step moves nothing.
        """
        return rounded(1 / (self.factors * self.share)) if self.share else 1.0


def rounded(value: float) -> float:
    """Return the power of 2^(1/8) nearest to a positive number."""
    return float(2 ** (round(FINENESS * math.log2(value)) / FINENESS))


def factors_of(structure: Structure) -> dict[str, nn.Parameter]:
    """Return a structure's own trainable parameters by name.

    Temporary ones and those of structures inside are left out.
    """
    pairs = structure.named_parameters(recurse=False)
    return {name: value for name, value in pairs if value.requires_grad and name not in structure.temporary}


def movements(module: TrainingModule, batches: Sequence[Any], optimizer: str) -> dict[str, Movement]:
    """Return the movement of each factor of a network by the parameter's name.

    Works on a copy; module and random state stay unchanged. Dropout is off. Dense matrices, and maps that the loss does
    not reach, are left out. Temporary and frozen parameters are no factors.

    Args:
        module: Network and loss, on the device of the batches.
        batches: Micro-batches; the step is taken anew from the gradient of each.
        optimizer: Name of the optimizer.
    """
    with torch.random.fork_rng():
        probe = deepcopy(module).eval()
        names = {id(parameter): name for name, parameter in probe.network.named_parameters()}
        present = structures_of(probe.network).items()
        maps = {name: structure for name, structure in present if structure.name != "dense" and factors_of(structure)}
        dense = {name: _stand_in(probe.network, name, structure) for name, structure in maps.items()}
        covariances = input_covariances(probe, batches)
        shares: dict[str, list[float]] = {}
        for batch in batches:
            probe.zero_grad()
            probe.loss(batch).total.backward()
            gradients = {name: matrix.grad for name, matrix in dense.items() if matrix.grad is not None}
            for factor, share in first_steps(maps, gradients, covariances, optimizer):
                shares.setdefault(names[id(factor)], []).append(share)
    counts = {
        names[id(value)]: len(factors) for factors in map(factors_of, maps.values()) for value in factors.values()
    }
    return {name: Movement(fmean(values), counts[name]) for name, values in shares.items()}


def _stand_in(network: nn.Module, name: str, structure: Structure) -> nn.Parameter:
    """Replace a structure in place by an equal dense matrix; return the matrix.

    The structure is converted to float64, the matrix is in float32.
    """
    matrix = build_structure("dense", structure.out_features, structure.in_features)
    matrix.fit(structure.double().materialize().detach().float())
    set_structure(network, name, matrix)
    return next(matrix.parameters())


def first_steps(
    maps: Mapping[str, Structure], gradients: Mapping[str, Tensor], covariances: Mapping[str, Tensor], optimizer: str
) -> Iterator[tuple[nn.Parameter, float]]:
    """Yield each factor with m_f / m_D, once for each of its maps.

    The gradient of a shared factor is the sum over its maps; a factor without one gives 0. Factors are changed for a
    moment, and restored. Maps whose dense step moves nothing are left out.

    Args:
        maps: Structures by name, in float64.
        gradients: ∂L/∂W by name; maps without one are left out.
        covariances: C by name; the identity if it is missing, as for tables whose rows are looked up.
        optimizer: Name of the optimizer.
    """
    rule = optimizer_kind(optimizer).rule
    slopes: dict[int, Tensor] = {}
    for name, gradient in gradients.items():
        factors = list(factors_of(maps[name]).values())
        taken = torch.autograd.grad(maps[name].materialize(), factors, gradient.double(), allow_unused=True)
        for factor, slope in zip(factors, taken, strict=True):
            if slope is not None:
                slopes[id(factor)] = slopes.get(id(factor), torch.zeros_like(slope)) + slope
    for name, gradient in gradients.items():
        structure, covariance = maps[name], covariances.get(name)
        with torch.no_grad():
            before = structure.materialize().clone()
            dense = _norm(_step(before, gradient.double(), rule), covariance)
            for factor in factors_of(structure).values() if dense else ():
                step = _step(factor, slopes.get(id(factor), torch.zeros_like(factor)), rule)
                length = float(step.norm())
                # Short enough for a structure that is not linear in its factor; float64 keeps the digits.
                scale = 1e-3 * (float(factor.norm()) or 1.0) / length if length else 1.0
                kept = factor.clone()
                factor.add_(step, alpha=scale)
                moved = _norm(structure.materialize() - before, covariance) / scale
                factor.copy_(kept)
                yield factor, moved / dense


def _step(value: Tensor, slope: Tensor, rule: Rule) -> Tensor:
    """Return the first step at learning rate 1, up to its sign.

    "gradient": the gradient. "adam": its sign. "norm": its sign, scaled to the norm of ``value``.
    """
    if rule == "gradient":
        return slope
    signs = slope.sign()
    return signs * value.norm() / signs.norm().clamp(min=1.0) if rule == "norm" else signs


def _norm(change: Tensor, covariance: Tensor | None) -> float:
    """Return the root mean square movement √tr(ΔW C ΔWᵀ) of outputs.

    ΔW is the change of W, C the covariance of its inputs. Without covariance it is the Frobenius norm.
    """
    product = change if covariance is None else change @ covariance.to(change)
    return math.sqrt(max(0.0, float((product * change).sum())))


@torch.no_grad()
def balance(network: nn.Module, measured: Mapping[str, Movement], optimizer: str) -> list[str]:
    """Rescale the factors of each map in place, so that equal steps move alike.

    W stays the same. A factor is multiplied by (m_f / m)^(1/e), rounded to a power of 2^(1/8), with the geometric mean
    m of the map's factors. The last factor's scale makes the product of all scales 1. The exponent e is 1 for Adam and
    2 for gradient descent. LAMB's steps are relative to a factor's norm already, and nothing is done.

    Returns:
        Names of the maps that are rescaled. Left as they are: maps of one factor, with a shared factor, or with a
        factor that is not in ``measured`` or moves nothing. So are maps whose W would change by more than 0.1 %.
    """
    rule = optimizer_kind(optimizer).rule
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    maps = {name: factors_of(structure) for name, structure in structures_of(network).items()}
    holders = [id(value) for factors in maps.values() for value in factors.values()]
    done = []
    for name, factors in maps.items():
        shares = [measured[names[id(value)]].share for value in factors.values() if names[id(value)] in measured]
        if rule == "norm" or len(factors) < 2 or len(shares) < len(factors) or not all(shares):
            continue
        if any(holders.count(id(value)) > 1 for value in factors.values()):
            continue
        middle, exponent = fmean(map(math.log2, shares)), 2 if rule == "gradient" else 1
        octaves = [round(FINENESS * (math.log2(share) - middle) / exponent) for share in shares]
        octaves[-1] -= sum(octaves)  # the product of all scales is 1
        if _rescaled(
            structures_of(network)[name], list(factors.values()), [2 ** (part / FINENESS) for part in octaves]
        ):
            done.append(name)
    return done


def _rescaled(structure: Structure, factors: Sequence[nn.Parameter], scales: Sequence[float]) -> bool:
    """Multiply factors by scales in place; return True.

    If W changes by more than 0.1 %, undo it and return False.
    """
    before, kept = structure.materialize().clone(), [factor.clone() for factor in factors]
    for factor, scale in zip(factors, scales, strict=True):
        factor.mul_(scale)
    if float((structure.materialize() - before).norm()) <= 1e-3 * float(before.norm()):
        return True
    for factor, value in zip(factors, kept, strict=True):
        factor.copy_(value)
    return False
