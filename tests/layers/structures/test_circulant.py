import pytest
import torch

from phmrun.layers import Linear


def explicit(column):
    """The circulant matrix entry by entry."""
    size = len(column)
    return torch.stack([torch.stack([column[(i - j) % size] for j in range(size)]) for i in range(size)])


@pytest.mark.parametrize("size", [1, 2, 3, 8, 15])
def test_forward_and_gradients_equal_the_explicit_matrix(size):
    torch.manual_seed(size)
    linear = Linear(size, size, structure="circulant", dtype=torch.float64)
    column, inputs = linear.structure.column, torch.randn(4, size, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(4, size, dtype=torch.float64)
    expected = inputs @ explicit(column).t() + linear.bias
    wanted = torch.autograd.grad(expected, [column, inputs], upstream)
    for application in ("dense", "factored"):
        linear.application = application
        outputs = linear(inputs)
        torch.testing.assert_close(outputs, expected)
        torch.testing.assert_close(torch.autograd.grad(outputs, [column, inputs], upstream), wanted)
    torch.testing.assert_close(linear.structure.packed()(inputs) + linear.bias, expected)
