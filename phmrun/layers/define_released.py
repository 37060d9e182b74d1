"""DeFINE unit as released in DeLighT's code, which differs from the paper's text.

Formula:        ê⁰ = φ(LN(W₀ e));  ê¹ = F(ê⁰; g¹);  êˡ = F(mix(ê⁰, êˡ⁻¹); gˡ), l = 2 … N;  φ(LN(W [ê⁰, ê^N]))
                F: a matrix for each group, a layer norm over the numbers of a group, φ
Groups:         …, 4, 2, 1, g_max, …, 4, 2, 1; the last transform has one group
Widths:         from m/2 to k in N - 1 equal steps, rounded up to multiples of 8 and of the groups; the last one is m
Parameters:     n·m/2 + 3m²/2 of the plain maps; Σ_l in_l·out_l / gˡ; biases, and norms of out_l / gˡ numbers
Source:         github.com/sacmehta/delight (MIT), fairseq/delight_modules/dextra_unit.py and nn_functions.py, with
                ``--define-iclr``
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from phmrun.layers.define import ACTIVATIONS, Activation, GroupTransform
from phmrun.layers.linear import Linear, glorot_std
from phmrun.layers.structure import Structure


class GroupMap(NamedTuple):
    """Sizes and groups of one transform."""

    inputs: int
    outputs: int
    groups: int


def released_groups(depth: int, max_groups: int) -> list[int]:
    """Return the groups of each transform.

    1, 2, 4, … ``max_groups``, repeated from 1, then reversed: the last is 1.
    """
    return [2 ** (step % max_groups.bit_length()) for step in range(depth)][::-1]


def chained(start: int, widths: Sequence[int], groups: Sequence[int], end: int) -> list[GroupMap]:
    """Return a map for each of N groups, which has ``end`` outputs at last, and N - 1 widths before.

    Widths are rounded up to multiples of 8, of the map's groups and of the next one's. All maps except the first also
    read the ``start`` inputs.
    """
    maps, inputs = [], start
    for width, its, following in zip(widths, groups[:-1], groups[1:], strict=True):
        multiple = max(its, following, 8)
        outputs = math.ceil(width / multiple) * multiple
        maps.append(GroupMap(inputs, outputs, its))
        inputs = outputs + start
    return [*maps, GroupMap(inputs, end, groups[-1])]


def released_maps(start: int, widest: int, end: int, depth: int, max_groups: int) -> list[GroupMap]:
    """Return the sizes of the N group transforms.

    Output widths grow evenly from ``start``, which is left out, to ``widest`` in N - 1 steps; the last transform has
    ``end``. N is ``depth``.
    """
    widths = [int(round(start + (widest - start) * step / (depth - 1), 6)) for step in range(1, depth)]
    return chained(start, widths, released_groups(depth, max_groups), end)


class ReleasedDeFINE(nn.Module):
    """Unit of released DeFINE: linear map, ``depth`` group transforms, linear map.

    The first map has m/2 outputs, the last m.

    Args:
        in_features: n.
        out_features: m.
        widest: k.
        depth: Number of group transforms (N), at least 2.
        max_groups: g_max, a power of two.
        bias: Add biases to the group transforms.
        activation: φ.
        **layer: Structure of all matrices, and its options.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        *,
        widest: int,
        depth: int,
        max_groups: int = 16,
        bias: bool = True,
        activation: Activation = "gelu",
        **layer: Any,
    ) -> None:
        super().__init__()
        start = out_features // 2
        plan = released_maps(start, widest, out_features, depth, max_groups)
        self.in_features, self.out_features, self.activation = in_features, out_features, activation
        self.enter = Linear(in_features, start, **layer)
        self.transforms = nn.ModuleList(GroupTransform(*sizes, shared=False, bias=bias, **layer) for sizes in plan)
        self.leave = Linear(start + out_features, out_features, **layer)
        self.enter_norm, self.leave_norm = nn.LayerNorm(start), nn.LayerNorm(out_features)
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.outputs // sizes.groups) for sizes in plan)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw all matrices with Glorot's standard deviation, in place.

        Biases become zero; norms stay. The fans of a group transform with several matrices are groups · outputs of a
        group, and inputs · outputs of a group. With one matrix they are its inputs and outputs.
        """
        for linear in (self.enter, self.leave):
            linear.reset_parameters(glorot_std(linear.in_features, linear.out_features), zero_bias=True)
        for module in self.transforms:
            transform = cast(GroupTransform, module)
            maps = [cast(Structure, structure) for structure in transform.maps]
            rows, columns = maps[0].out_features, maps[0].in_features
            fans = (columns, rows) if len(maps) == 1 else (columns * rows, len(maps) * rows)
            for structure in maps:
                structure.reset_parameters(glorot_std(*fans))
            if transform.bias is not None:
                nn.init.zeros_(transform.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the embeddings, ``[tokens, in_features] -> [tokens, out_features]``."""
        start = self._activated(self.enter_norm, self.enter(inputs))
        return self._activated(self.leave_norm, self.leave(torch.cat([start, self._expanded(start)], dim=1)))

    def _expanded(self, start: Tensor) -> Tensor:
        """Return the output of the group transforms of ``start [tokens, m/2]``.

        All except the first also read ``start``, which precedes the features group by group. φ and the norm apply to
        each group's numbers.
        """
        hidden = start
        for number, (transform, norm) in enumerate(zip(self.transforms, self.norms, strict=True)):
            groups: int = transform.groups  # type: ignore[assignment]
            parts = hidden.unflatten(1, (groups, -1))
            if number:
                parts = torch.cat([start.unflatten(1, (groups, -1)), parts], dim=2)
            hidden = self._activated(norm, transform(parts).unflatten(1, (groups, -1))).flatten(1)
        return hidden

    def _activated(self, norm: nn.Module, features: Tensor) -> Tensor:
        """Return φ(norm(features))."""
        return ACTIVATIONS[self.activation](norm(features))
