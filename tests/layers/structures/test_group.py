"""Group linear transforms against ``torch.block_diag``; the shuffle against a permutation and torch's own."""

import pytest
import torch
from torch import nn

from phmrun.layers import Linear, build_structure


def reference(name, structure):
    """W block by block, and row by row for the shuffle."""
    blocks = [structure.block[0 if len(structure.block) == 1 else i] for i in range(structure.groups)]
    matrix = torch.block_diag(*blocks)
    if name == "group":
        return matrix
    groups, size = structure.groups, structure.block.shape[1]
    return torch.stack([matrix[(row % groups) * size + row // groups] for row in range(len(matrix))])


@pytest.mark.parametrize("name", ["group", "group-shuffle"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("size", [(12, 6), (6, 12), (9, 9), (3, 3)])
def test_it_is_the_block_diagonal_matrix(name, shared, size):
    torch.manual_seed(0)
    structure = build_structure(name, *size, groups=3, shared=shared).double()
    structure.reset_parameters(0.5)
    torch.testing.assert_close(structure.materialize(), reference(name, structure))
    numbers = size[0] * size[1] // (9 if shared else 3)
    assert sum(parameter.numel() for parameter in structure.parameters()) == numbers


def test_the_shuffle_is_torchs_channel_shuffle():
    plain, shuffled = (Linear(12, 24, bias=False, structure=name, groups=4) for name in ("group", "group-shuffle"))
    with torch.no_grad():
        shuffled.structure.block.copy_(plain.structure.block)
    inputs = torch.randn(5, 12)
    torch.testing.assert_close(shuffled(inputs), nn.ChannelShuffle(4)(plain(inputs)[:, :, None, None])[:, :, 0, 0])
