"""Matrices of a trained network and what stands for them, and how a budget of parameters is spread over them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from phmrun.errors import PhmrunError
from phmrun.layers.fitting import energy_kept
from phmrun.layers.structure import Structure

ROUNDS = 60  # halvings of the interval of prices


@dataclass(frozen=True)
class FittedMap:
    """One matrix and what stands for it."""

    name: str  # its place in the network, `encoder.0.feedforward.block.expand`
    kind: str  # the place without the numbers of layers
    shape: tuple[int, int]  # `(out_features, in_features)`
    layer: Mapping[str, Any]
    parameters: int
    energy: float  # share of ‖W‖² that is kept
    # share of the outputs' energy on the calibration data; `None` where that is not known
    output_energy: float | None
    # loss on the calibration data with this map alone replaced, minus the loss without, in nats per unit; `None`
    # where it was not measured
    damage: float | None = None


def kind_of(name: str) -> str:
    """A map's place without numbers: what the maps of all layers have in common."""
    return ".".join(part for part in name.split(".") if not part.isdigit() and part != "block")


@torch.no_grad()
def fitted_map(name: str, weight: Tensor, structure: Structure, covariance: Tensor | None) -> FittedMap:
    """What a structure that has been fitted to a matrix keeps of it."""
    found = structure.materialize().detach()
    return FittedMap(
        name,
        kind_of(name),
        (structure.out_features, structure.in_features),
        {"structure": structure.name, **structure.options},
        sum(parameter.numel() for parameter in structure.parameters()),
        energy_kept(weight, found),
        None if covariance is None else energy_kept(weight, found, covariance),
    )


def by_kind(maps: Iterable[FittedMap]) -> dict[str, list[FittedMap]]:
    """Maps that stand in the same place of different layers, together."""
    kinds: dict[str, list[FittedMap]] = {}
    for one in maps:
        kinds.setdefault(one.kind, []).append(one)
    return kinds


def spread(choices: Mapping[str, Sequence[FittedMap]], budget: Fraction) -> dict[str, FittedMap]:
    """One choice for each map, within a share of the parameters that all maps would have dense.

    A price per parameter is sought at which the maps, each taking what is cheapest for itself, together keep within
    the budget (Lagrange; Everett 1963): no other spread of as many parameters does less damage. What is then left over
    goes to the maps that gain most by it.

    Args:
        choices: The choices of each map, whose ``damage`` is known; that of a dense map is 0.
        budget: Share of the dense parameters.

    Raises:
        PhmrunError: The smallest choices need more than that.
    """
    dense = {name: options[0].shape[0] * options[0].shape[1] for name, options in choices.items()}
    most = int(budget * sum(dense.values()))
    smallest = sum(min(option.parameters for option in options) for options in choices.values())
    if smallest > most:
        what = f"the smallest choices of all maps need {smallest / sum(dense.values()):.3f} of the dense parameters"
        raise PhmrunError(what, where="--budget")

    def taken(price: float) -> dict[str, FittedMap]:
        return {
            name: min(options, key=lambda option: (_damage(option) + price * option.parameters, option.parameters))
            for name, options in choices.items()
        }

    def size(chosen: Mapping[str, FittedMap]) -> int:
        return sum(option.parameters for option in chosen.values())

    low, high = 0.0, 1e-12
    while size(taken(high)) > most:
        high *= 10
    if size(taken(0.0)) <= most:
        return taken(0.0)
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if size(taken(middle)) > most else (low, middle)
    chosen = taken(high)
    while True:  # the rest of the budget is spent, the best gain per parameter first
        room = most - size(chosen)
        steps = [
            ((_damage(chosen[name]) - _damage(option)) / (option.parameters - chosen[name].parameters), name, option)
            for name, options in choices.items()
            for option in options
            if 0 < option.parameters - chosen[name].parameters <= room and _damage(option) < _damage(chosen[name])
        ]
        if not steps:
            return chosen
        _, name, option = max(steps, key=lambda step: step[0])
        chosen = {**chosen, name: option}


def _damage(option: FittedMap) -> float:
    """What a choice costs; never less than nothing, since noise is no gain."""
    return max(option.damage or 0.0, 0.0)
