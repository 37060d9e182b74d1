"""Group: group linear transform, which maps g groups of features separately.

Formula:        W = diag(B_1, …, B_g), B_i [k/g, d/g]; with ``shared`` all B_i are equal
Parameters:     k·d/g; k·d/g² with ``shared``
Initialization: the blocks have √g times the dense layer's standard deviation; W is zero elsewhere. The mean square over
                all of W, and the variance of W x, are then those of the dense layer
Source:         Kuchaiev and Ginsburg, "Factorization tricks for LSTM networks", 2017; Mehta et al., "Pyramidal
                recurrent unit", EMNLP 2018; DeFINE (Mehta et al., ICLR 2020), appendix A.1 (shared block)

W is applied group by group, in training too: k·d/g multiplications per token instead of k·d.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Application, Product, Structure, register


@register("group")
class Group(Structure):
    """Block-diagonal matrix: group i of the outputs depends on group i of the inputs only."""

    formula = "W = diag(B_1, …, B_g)"
    count_formula = "k·d/g"
    constraint = "g divides k and d"
    source = "Mehta et al. 2018; 2020"
    examples: ClassVar[tuple[Mapping[str, Any], ...]] = ({"groups": 4}, {"groups": 2, "shared": True})
    application: Application = "factored"
    linear = True
    shuffle: ClassVar[bool] = False
    """True if the outputs are permuted: output j of group i moves to position j·g + i."""

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
    def check(cls, out_features: int, in_features: int, *, groups: int, shared: bool) -> str | None:  # type: ignore[override]
        """Return why the number of groups does not divide both sizes, else None.

        The text lists the valid numbers up to 64.
        """
        if groups >= 1 and out_features % groups == 0 and in_features % groups == 0:
            return None
        valid = [str(value) for value in range(1, 65) if out_features % value == 0 and in_features % value == 0]
        return f"{groups} groups do not divide both sizes; valid groups: {', '.join(valid)}"

    def reset_parameters(self, std: float) -> None:
        """Draw blocks uniformly with standard deviation √g · ``std``, in place.

        The mean square over W, zeros included, is then std².
        """
        bound = math.sqrt(3 * self.groups) * std
        nn.init.uniform_(self.block, -bound, bound)

    def blocks(self) -> Tensor:
        """Return all blocks ``[g, k/g, d/g]``.

        A shared block is expanded without a copy.
        """
        return self.block.expand(self.groups, -1, -1)

    def materialize(self) -> Tensor:
        """Return the block-diagonal matrix, with permuted rows if ``shuffle`` is set."""
        _, rows, columns = self.block.shape
        matrix = self.block.new_zeros(self.groups, rows, self.groups, columns)
        # Axes: group, row, group, column. The blocks are the diagonal of the two group axes.
        matrix = torch.diagonal_scatter(matrix, self.blocks().permute(1, 2, 0), dim1=0, dim2=2)
        return (matrix.transpose(0, 1) if self.shuffle else matrix).reshape(self.out_features, self.in_features)

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it.

        They are rows of blocks, padded with zeros. With ``shuffle``, row j·g + i of W is row j of block i.
        """
        _, size, columns = self.block.shape
        group, place = (index % self.groups, index // self.groups) if self.shuffle else (index // size, index % size)
        rows = self.block.new_zeros(len(index), self.groups, columns)
        rows = rows.index_put((torch.arange(len(index), device=index.device), group), self.blocks()[group, place])
        return rows.view(-1, self.in_features)

    def product(self) -> Product:
        """Return one batched product over the groups.

        Outputs are permuted if ``shuffle`` is set.
        """
        return apply_groups, (self.blocks(),), {"shuffle": self.shuffle}

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of a block: (k/g, d/g)."""
        return {"block": (self.block.shape[1], self.block.shape[2])}

    def token_multiplications(self) -> int:
        """Return k·d/g."""
        return self.out_features * self.in_features // self.groups


def apply_groups(inputs: Tensor, blocks: Tensor, *, shuffle: bool) -> Tensor:
    """Return W x for blocks ``[g, k/g, d/g]``.

    Shapes: ``[tokens, d] -> [tokens, k]``. With ``shuffle``, output j of group i moves to place j·g + i.
    """
    tokens, (groups, _, columns) = inputs.shape[0], blocks.shape
    split = inputs.reshape(tokens, groups, columns).transpose(0, 1)
    outputs = torch.bmm(split, blocks.transpose(1, 2)).transpose(0, 1)  # [tokens, g, k/g]
    return (outputs.transpose(1, 2) if shuffle else outputs).flatten(1)
