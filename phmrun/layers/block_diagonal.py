"""A block-diagonal matrix with g blocks B ``[g, k/g, d/g]``: built, looked up, applied."""

import math

import torch
from torch import Tensor, nn


def block_diagonal(blocks: Tensor) -> Tensor:
    """The matrix ``[k, d]``."""
    groups, rows, columns = blocks.shape
    matrix = blocks.new_zeros(groups, rows, groups, columns)
    # Positions (group, row, group, column) of one group after the other, as a view of the matrix.
    matrix = torch.diagonal_scatter(matrix, blocks.permute(1, 2, 0), dim1=0, dim2=2)
    return matrix.view(groups * rows, groups * columns)


def block_diagonal_rows(blocks: Tensor, group: Tensor, place: Tensor) -> Tensor:
    """Rows ``[tokens, d]`` of given numbers within given groups, each ``[tokens]``."""
    groups, _, columns = blocks.shape
    rows = blocks.new_zeros(len(group), groups, columns)
    rows = rows.index_put((torch.arange(len(group), device=group.device), group), blocks[group, place])
    return rows.flatten(1)


def apply_groups(inputs: Tensor, blocks: Tensor) -> Tensor:
    """``inputs [tokens, d] -> [tokens, g, k/g]``, each group of features by its own block: one batched product."""
    tokens, (groups, _, columns) = inputs.shape[0], blocks.shape
    split = inputs.reshape(tokens, groups, columns).transpose(0, 1)
    return torch.bmm(split, blocks.transpose(1, 2)).transpose(0, 1)


class PackedGroups(nn.Module):
    """y = W x by groups, for inference.

    Args:
        blocks: ``[g, k/g, d/g]``.
        shuffle: Whether the output features are shuffled between groups.
    """

    def __init__(self, blocks: Tensor, shuffle: bool) -> None:
        super().__init__()
        self.blocks = nn.Parameter(blocks.detach().clone(), requires_grad=False)
        self.shuffle = shuffle

    def forward(self, inputs: Tensor) -> Tensor:
        """``[tokens, d] -> [tokens, k]``."""
        outputs = apply_groups(inputs, self.blocks)
        return (outputs.transpose(1, 2) if self.shuffle else outputs).flatten(1)


def check_groups(out_features: int, in_features: int, groups: int) -> str | None:
    """Whether the groups divide both sizes."""
    if groups >= 1 and out_features % groups == 0 and in_features % groups == 0:
        return None
    valid = [str(value) for value in range(1, 65) if out_features % value == 0 and in_features % value == 0]
    return f"{groups} groups do not divide both sizes; valid groups: {', '.join(valid)}"


def draw_blocks(blocks: Tensor, groups: int, std: float) -> None:
    """Uniform with standard deviation √g · ``std``: the mean square over the matrix, zeros included, is std²."""
    bound = math.sqrt(3 * groups) * std
    nn.init.uniform_(blocks, -bound, bound)
