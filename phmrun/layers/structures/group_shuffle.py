"""Group shuffle: a group linear transform whose outputs are dealt out to the groups of the next one.

Formula:        W = P diag(B_1, …, B_g), B_i [k/g, d/g]; P moves output j of group i to place j·g + i
Parameters:     k·d/g; k·d/g² with ``shared``
Initialisation: As for "group": the blocks have √g times the dense layer's standard deviation
Source:         Zhang et al., "ShuffleNet", CVPR 2018; in DeLighT and DeFINE's comparison (Li et al. 2018) for text

Two plain group transforms one after the other never mix their groups. With P between them, every group of the second
sees all groups of the first.
"""

from typing import Annotated, ClassVar

import torch
from torch import Tensor, nn

from phmrun.layers.block_diagonal import (
    PackedGroups,
    apply_groups,
    block_diagonal,
    block_diagonal_rows,
    check_groups,
    draw_blocks,
)
from phmrun.layers.structure import Application, Structure, register


@register("group-shuffle")
class GroupShuffle(Structure):
    """A block-diagonal matrix with its rows dealt out: each group of outputs comes from all groups of inputs."""

    formula = "W = P diag(B_1, …, B_g)"
    count_formula = "k·d/g"
    constraint = "g divides k and d"
    source = "Zhang et al. 2018; Li et al. 2018"
    application: ClassVar[Application] = "factored"

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        groups: Annotated[int, "Groups g of features; divides both sizes"] = 4,
        shared: Annotated[bool, "One block for all groups: k·d/g² parameters"] = False,
    ) -> None:
        super().__init__(out_features, in_features, groups=groups, shared=shared)
        self.groups = groups
        self.block = nn.Parameter(torch.empty(1 if shared else groups, out_features // groups, in_features // groups))

    @classmethod
    def check(  # type: ignore[override]
        cls, out_features: int, in_features: int, *, groups: int = 4, shared: bool = False
    ) -> str | None:
        """As for "group"."""
        return check_groups(out_features, in_features, groups)

    @classmethod
    def count(  # type: ignore[override]
        cls, out_features: int, in_features: int, *, groups: int = 4, shared: bool = False
    ) -> int:
        """k·d/g, or k·d/g² where the groups share their block."""
        return out_features * in_features // (groups**2 if shared else groups)

    def reset_parameters(self, std: float) -> None:
        """Blocks uniform with standard deviation √g · ``std``."""
        draw_blocks(self.block, self.groups, std)

    def blocks(self) -> Tensor:
        """``[g, k/g, d/g]``."""
        return self.block.expand(self.groups, -1, -1)

    def materialize(self) -> Tensor:
        """The blocks set into zeros, rows dealt out."""
        matrix = block_diagonal(self.blocks()).view(self.groups, -1, self.in_features)
        return matrix.transpose(0, 1).reshape(self.out_features, self.in_features)

    def rows(self, index: Tensor) -> Tensor:
        """One row of one block, between zeros."""
        flat = index.reshape(-1)
        rows = block_diagonal_rows(self.blocks(), flat % self.groups, flat // self.groups)
        return rows.view(*index.shape, self.in_features)

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """One batched product over the groups, its outputs dealt out."""
        return apply_groups(inputs, self.blocks()).transpose(1, 2).flatten(1)

    def packed(self) -> nn.Module:
        """The blocks alone."""
        return PackedGroups(self.blocks(), shuffle=True)
