import torch

from phmrun.layers import Linear, build_structure


def test_it_is_the_diagonal_matrix():
    linear = Linear(5, 5, structure="symmetric", dtype=torch.float64)
    inputs = torch.randn(3, 5, dtype=torch.float64)
    diagonal = linear.structure.diagonal
    torch.testing.assert_close(linear.weight, torch.diag(diagonal))
    torch.testing.assert_close(linear(inputs), inputs @ torch.diag(diagonal).t() + linear.bias)
    assert linear.application == "factored"


def test_its_form_is_that_of_any_symmetric_matrix_in_its_eigenvectors():
    torch.manual_seed(0)
    matrix = torch.randn(6, 6, dtype=torch.float64)
    matrix = matrix + matrix.t()
    values, vectors = torch.linalg.eigh(matrix)
    structure = build_structure("symmetric", 6, 6).double()
    with torch.no_grad():
        structure.diagonal.copy_(values)
    x, y = torch.randn(2, 6, dtype=torch.float64)
    form = (x @ vectors) @ structure.materialize() @ (y @ vectors)
    torch.testing.assert_close(form, x @ matrix @ y)
