"""Group: group linear transform, in which g groups of features are each mapped by themselves.

Formula:        W = diag(B_1, …, B_g), B_i [k/g, d/g]; one B for all with ``shared``
Parameters:     k·d/g; k·d/g² with ``shared``
Initialisation: Off the blocks, W is zero. The blocks have √g times the dense layer's standard deviation, so that the
                mean square over all of W, and with it the variance of W x, is the dense layer's
Source:         Kuchaiev and Ginsburg, "Factorization tricks for LSTM networks", 2017; Mehta et al., "Pyramidal
                recurrent unit", EMNLP 2018; DeFINE (Mehta et al., ICLR 2020), appendix A.1 (groups that share)

It is always applied group by group, in training too: that costs k·d/g multiplications per token in the place of k·d.
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
from phmrun.layers.fitting import best_blocks
from phmrun.layers.structure import Application, Structure, register


@register("group")
class Group(Structure):
    """A block-diagonal matrix: each of g groups of inputs makes one group of outputs."""

    formula = "W = diag(B_1, …, B_g)"
    count_formula = "k·d/g"
    constraint = "g divides k and d"
    source = "Mehta et al. 2018; 2020"
    application: Application = "factored"
    shuffle: ClassVar[bool] = False
    """Whether the outputs are dealt out: output j of group i goes to place j·g + i."""

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
        cls, out_features: int, in_features: int, *, groups: int, shared: bool
    ) -> str | None:
        """Whether the groups divide both sizes."""
        return check_groups(out_features, in_features, groups)

    def reset_parameters(self, std: float) -> None:
        """Blocks uniform with standard deviation √g · ``std``."""
        draw_blocks(self.block, self.groups, std)

    @torch.no_grad()
    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """The blocks; with a covariance, the regression of a group's outputs on its own inputs."""
        rows = torch.arange(self.out_features)
        groups = rows.view(-1, self.groups).t() if self.shuffle else rows.view(self.groups, -1)
        wanted, gram = best_blocks(weight, list(groups), self.groups, covariance)
        if len(self.block) == 1:
            wanted, gram = wanted.sum(0, keepdim=True), gram.sum(0, keepdim=True)
        self.block.copy_(torch.linalg.solve(gram, wanted, left=False))

    def blocks(self) -> Tensor:
        """``[g, k/g, d/g]``."""
        return self.block.expand(self.groups, -1, -1)

    def materialize(self) -> Tensor:
        """The blocks set into zeros, rows dealt out."""
        matrix = block_diagonal(self.blocks())
        if not self.shuffle:
            return matrix
        return matrix.view(self.groups, -1, self.in_features).transpose(0, 1).reshape(self.out_features, -1)

    def rows(self, index: Tensor) -> Tensor:
        """One row of one block, between zeros."""
        flat, size = index.reshape(-1), self.block.shape[1]
        group, place = (flat % self.groups, flat // self.groups) if self.shuffle else (flat // size, flat % size)
        return block_diagonal_rows(self.blocks(), group, place).view(*index.shape, self.in_features)

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """One batched product over the groups, its outputs dealt out."""
        outputs = apply_groups(inputs, self.blocks())
        return (outputs.transpose(1, 2) if self.shuffle else outputs).flatten(1)

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """A block of inputs makes a block of outputs."""
        return {"block": (self.block.shape[1], self.block.shape[2])}

    def token_multiplications(self) -> int:
        """k·d/g."""
        return self.out_features * self.in_features // self.groups

    def packed(self) -> nn.Module:
        """The blocks alone."""
        return PackedGroups(self.blocks(), shuffle=self.shuffle)
