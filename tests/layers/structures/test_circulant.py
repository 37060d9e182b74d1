import pytest
import torch

from phmrun.layers import build_structure


@pytest.mark.parametrize("size", [1, 2, 3, 8, 15])
def test_it_is_the_circulant_matrix_entry_by_entry(size):
    structure = build_structure("circulant", size, size).double()
    structure.reset_parameters(1.0)
    expected = [[structure.column[(i - j) % size] for j in range(size)] for i in range(size)]
    torch.testing.assert_close(structure.materialize(), torch.stack([torch.stack(row) for row in expected]))
