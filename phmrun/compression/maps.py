"""A matrix of a trained network and what stands for it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from phmrun.layers.fitting import energy_kept
from phmrun.layers.structure import Structure


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
