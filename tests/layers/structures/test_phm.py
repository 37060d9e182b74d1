"""PHM against what it is defined to be: a sum of Kronecker products, built here by ``torch.kron``."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers import Embedding, Linear

ORDERS = range(1, 17)


def kronecker_sum(a: Tensor, s: Tensor) -> Tensor:
    """Σ_i A_i ⊗ S_i, term by term."""
    return sum(torch.kron(a[i], s[i]) for i in range(len(a)))


def released_matrix(a: Tensor, s: Tensor) -> Tensor:
    """Block (j, i) = rowsum(A_i)[j] · S_i, block by block."""
    rows = [torch.cat([a[i, j].sum() * s[i] for i in range(len(a))], dim=1) for j in range(len(a))]
    return torch.cat(rows, dim=0)


REFERENCES = {"paper": kronecker_sum, "released": released_matrix}


def size_for(n: int) -> tuple[int, int]:
    """Two sizes that n divides: 240 and 480 where it can be, multiples near them otherwise."""
    return (240, 480) if 240 % n == 0 else (n * (240 // n), n * (480 // n))


@pytest.mark.parametrize("variant", REFERENCES)
@pytest.mark.parametrize("n", ORDERS)
def test_forward_gradients_and_count_equal_the_kronecker_sum(n, variant):
    torch.manual_seed(n)
    in_features, out_features = size_for(n)
    layer = Linear(in_features, out_features, dtype=torch.float64, structure="phm", n=n, variant=variant)
    inputs = torch.randn(3, in_features, dtype=torch.float64, requires_grad=True)
    a, s = (p.detach().clone().requires_grad_() for p in (layer.structure.a, layer.structure.s))
    twin = inputs.detach().clone().requires_grad_()
    upstream = torch.randn(3, out_features, dtype=torch.float64)

    outputs = layer(inputs)
    expected = F.linear(twin, REFERENCES[variant](a, s), layer.bias)
    torch.testing.assert_close(outputs, expected)
    (outputs * upstream).sum().backward()
    (expected * upstream).sum().backward()
    torch.testing.assert_close(inputs.grad, twin.grad)
    torch.testing.assert_close(layer.structure.a.grad, a.grad)
    torch.testing.assert_close(layer.structure.s.grad, s.grad)

    assert layer.structure.kept() == in_features * out_features / n + n**3


# The Hamilton product of p = p0 + p1 i + p2 j + p3 k with q, written out by hand.
def hamilton(p, q):
    p0, p1, p2, p3 = p
    q0, q1, q2, q3 = q
    return (
        p0 * q0 - p1 * q1 - p2 * q2 - p3 * q3,
        p0 * q1 + p1 * q0 + p2 * q3 - p3 * q2,
        p0 * q2 - p1 * q3 + p2 * q0 + p3 * q1,
        p0 * q3 + p1 * q2 - p2 * q1 + p3 * q0,
    )


def left_multiplications() -> Tensor:
    """A_i, the matrix of q ↦ e_i·q for the units 1, i, j, k, column by column."""
    units = torch.eye(4, dtype=torch.float64)
    columns = [[torch.stack(hamilton(units[i], units[j])) for j in range(4)] for i in range(4)]
    return torch.stack([torch.stack(column, dim=1) for column in columns])


def test_the_hamilton_algebra_gives_the_quaternion_product():
    torch.manual_seed(3)
    layer = Linear(24, 16, bias=False, dtype=torch.float64, structure="phm", n=4)
    with torch.no_grad():
        layer.structure.a.copy_(left_multiplications())
    weights, inputs = layer.structure.s, torch.randn(24, dtype=torch.float64)

    # A quaternion layer multiplies every weight quaternion by every input quaternion and sums: component c of the
    # weights is S_c [4, 6], component c of the input is its c-th quarter [6].
    parts = hamilton(tuple(_Product(weights[c]) for c in range(4)), tuple(inputs.view(4, 6)))
    torch.testing.assert_close(layer(inputs), torch.cat(parts))


class _Product:
    """A weight matrix whose ``*`` is the matrix–vector product."""

    def __init__(self, matrix):
        self.matrix = matrix

    def __mul__(self, vector):
        return self.matrix @ vector


@pytest.mark.parametrize(
    ("n", "sizes", "valid"),
    [
        (3, (512, 512), "1, 2, 4, 8, 16, 32, 64"),
        (4, (12, 18), "1, 2, 3, 6"),
        (0, (6, 4), "1, 2"),
        (-2, (4, 4), "1, 2, 4"),
    ],
)
def test_an_order_that_does_not_divide_is_refused_with_the_valid_ones(n, sizes, valid):
    for make in (
        lambda: Linear(sizes[1], sizes[0], structure="phm", n=n),
        lambda: Embedding(*sizes, structure="phm", n=n),
    ):
        with pytest.raises(PhmrunError) as caught:
            make()
        assert f"n = {n} does not divide both sizes; valid n: {valid}" in str(caught.value)
        assert "phm" in str(caught.value)
        assert caught.value.code == 2
