"""The documented layer of a user's own: what it computes."""

import pytest
import structure_cases  # noqa: F401  (it registers the layer)
import torch

from phmrun.errors import PhmrunError
from phmrun.layers import Linear, build_structure


@pytest.mark.parametrize("size", [(4, 6), (6, 4), (5, 5), (1, 3)])
def test_it_is_a_toeplitz_matrix(size):
    rows, columns = size
    linear = Linear(columns, rows, structure="mine", scale=3.0)
    diagonals = linear.structure.diagonals
    expected = [[3.0 * diagonals[i - j + columns - 1] for j in range(columns)] for i in range(rows)]
    torch.testing.assert_close(linear.weight, torch.stack([torch.stack(row) for row in expected]))
    assert sum(parameter.numel() for parameter in linear.structure.parameters()) == rows + columns - 1
    with pytest.raises(PhmrunError, match=r"scale = 0(\.0)?; valid: above 0"):
        build_structure("mine", *size, scale=0)
