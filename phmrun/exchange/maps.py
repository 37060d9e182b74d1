"""Fitted replacements of a network's matrices, and the allocation of a parameter budget among them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phmrun.layers.fitting import energy_kept
from phmrun.layers.structure import Structure

ROUNDS = 60  # bisection steps in the price per parameter


@dataclass(frozen=True)
class FittedMap:
    """A matrix of the network and its fitted replacement.

    Attributes:
        name: Place in the network, such as ``encoder.0.feedforward.block.expand``.
        kind: The place without layer numbers.
        shape: (out_features, in_features).
        layer: Structure and options of the replacement.
        parameters: Parameters of the replacement.
        energy: Share of ‖W‖² that is kept.
        output_energy: Share of the outputs' energy that is kept on the calibration data; None without such data.
        damage: Increase of the calibration loss if this map alone is replaced, in nats per unit; None if not measured.
    """

    name: str  # place in the network, such as `encoder.0.feedforward.block.expand`
    kind: str  # the place without layer numbers
    shape: tuple[int, int]  # `(out_features, in_features)`
    layer: Mapping[str, Any]
    parameters: int
    energy: float  # share of ‖W‖² that is kept
    # share of the outputs' energy that is kept on the calibration data; None without such data
    output_energy: float | None
    # increase of the calibration loss if this map alone is replaced, in nats per unit; None if not measured
    damage: float | None = None


def kind_of(name: str) -> str:
    """Return a map's name without layer numbers and ``block``.

    Maps with the same place in different layers share it: ``encoder.feedforward.expand``.
    """
    return ".".join(part for part in name.split(".") if not part.isdigit() and part != "block")


@torch.no_grad()
def fitted_map(name: str, weight: Tensor, structure: Structure, covariance: Tensor | None) -> FittedMap:
    """Describe a fitted structure, with the energy it keeps of ``weight``.

    All its parameters count, those of training only included. ``output_energy`` is None if ``covariance`` is None;
    ``damage`` is None.
    """
    fitted = structure.materialize().detach()
    return FittedMap(
        name,
        kind_of(name),
        (structure.out_features, structure.in_features),
        {"structure": structure.name, **structure.options},
        sum(parameter.numel() for parameter in structure.parameters()),
        energy_kept(weight, fitted),
        None if covariance is None else energy_kept(weight, fitted, covariance),
    )


def spread(choices: Mapping[str, Sequence[FittedMap]], most: int) -> dict[str, FittedMap]:
    """Choose replacements with little total damage and at most ``most`` parameters.

    Minimizes Σ damage + λ · Σ parameters for the smallest price λ, found by bisection, at which the total fits
    (Lagrange multipliers; Everett 1963). No other allocation of at most as many parameters does less damage. Then the
    remaining parameters go, one map at a time, to the map that gains most per parameter. The result may therefore be
    slightly worse than the best one of ``most`` parameters.

    Args:
        choices: Candidates of each map; a dense map has damage 0. Missing and negative damages count as 0.
        most: Largest total of parameters. It must be at least that of the smallest candidates, otherwise the search
            does not end.

    Returns:
        A candidate of each map, by the keys of ``choices``.
    """

    def taken(price: float) -> dict[str, FittedMap]:
        """Return each map's candidate of least damage + price · parameters.

        Of equals, the smaller one.
        """
        return {
            name: min(options, key=lambda option: (_damage(option) + price * option.parameters, option.parameters))
            for name, options in choices.items()
        }

    def size(chosen: Mapping[str, FittedMap]) -> int:
        """Return the total parameters of the chosen candidates."""
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
    while True:  # spend the rest of the budget, best gain per parameter first
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
    """Return the damage of a candidate.

    None and negative values (noise) count as 0.
    """
    return max(option.damage or 0.0, 0.0)
