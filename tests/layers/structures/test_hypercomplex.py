"""Hypercomplex layers against multiplication written out, and against the laws of the algebras."""

import pytest
import torch
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers import Linear, MultiheadAttention, build_structure
from phmrun.layers.structures.hypercomplex import ORDERS, multiplication


def conjugate(x):
    return [x[0], *(-part for part in x[1:])]


def times(x, y):
    """The Cayley–Dickson product of two lists of parts, pair by pair, down to real numbers."""
    if len(x) == 1:
        return [x[0] * y[0]]
    half = len(x) // 2
    a, b, c, d = x[:half], x[half:], y[:half], y[half:]
    first = [p - q for p, q in zip(times(a, c), times(conjugate(d), b), strict=True)]
    second = [p + q for p, q in zip(times(d, a), times(b, conjugate(c)), strict=True)]
    return first + second


def product(x, y):
    return torch.tensor(times(x.tolist(), y.tolist()), dtype=torch.float64)


@pytest.mark.parametrize("n", ORDERS.values())
def test_the_table_multiplies(n):
    torch.manual_seed(n)
    x, y = torch.randn(2, n, dtype=torch.float64)
    table = multiplication(n).double()
    torch.testing.assert_close(torch.einsum("icb,i,b->c", table, x, y), product(x, y))


@pytest.mark.parametrize("algebra", ORDERS)
@pytest.mark.parametrize("layout", ["blocks", "interleaved"])
def test_a_layer_multiplies_numbers_by_numbers(algebra, layout):
    torch.manual_seed(0)
    n = ORDERS[algebra]
    layer = Linear(3 * n, 2 * n, bias=False, structure="hypercomplex", algebra=algebra, layout=layout).double()
    weights = layer.structure.s  # [n, 2, 3]
    inputs = torch.randn(3 * n, dtype=torch.float64)
    numbers = inputs.view(n, 3).t() if layout == "blocks" else inputs.view(3, n)
    outputs = layer(inputs)
    created = outputs.view(n, 2).t() if layout == "blocks" else outputs.view(2, n)
    for row in range(2):
        expected = sum(product(weights[:, row, column], numbers[column]) for column in range(3))
        torch.testing.assert_close(created[row].detach(), expected)


def test_sizes_that_do_not_fit_are_refused_with_the_algebras_that_do():
    with pytest.raises(PhmrunError, match=r"4 parts of quaternion numbers do not divide both sizes; .*: complex$"):
        Linear(6, 10, structure="hypercomplex")
    with pytest.raises(PhmrunError, match="valid algebras: none"):
        Linear(5, 4, structure="hypercomplex")


@pytest.mark.parametrize("maps", ["joint", "separate"])
@pytest.mark.parametrize("memory", [False, True])
def test_interleaved_heads_are_heads_split_component_wise(maps, memory):
    """The quaternion Transformer: each head takes the same share of each component of Q, K and V."""
    torch.manual_seed(3)
    width, heads, n = 32, 2, 4
    attention = MultiheadAttention(width, heads, maps=maps, structure="hypercomplex").double()
    for bias in (linear.bias for linear in (*attention.project, attention.output)):
        torch.nn.init.normal_(bias)
    inputs, source = torch.randn(2, 2, 5, width, dtype=torch.float64)
    outputs = attention(inputs, source if memory else None)

    def apart(vectors):
        """From numbers side by side to blocks of components, ``[…, components, numbers]``."""
        return vectors.unflatten(-1, (-1, n)).transpose(-1, -2)

    def project(linear, vectors):
        """The same map as a layer in blocks, applied in blocks."""
        blocks = build_structure("hypercomplex", linear.out_features, linear.in_features, layout="blocks").double()
        with torch.no_grad():
            blocks.s.copy_(linear.structure.s)
        mapped = F.linear(vectors.flatten(-2), blocks.materialize()).unflatten(-1, (n, -1))
        return mapped + apart(linear.bias)

    x, y = apart(inputs), apart(source if memory else inputs)
    if maps == "separate":
        query, key, value = (project(first, part) for first, part in zip(attention.project, (x, y, y), strict=True))
    else:
        joint = attention.project[0]
        query = project(joint, x).chunk(3, dim=-1)[0]
        _, key, value = project(joint, y).chunk(3, dim=-1)

    def head(vectors, number):
        return vectors.chunk(heads, dim=-1)[number].flatten(-2)

    contexts = [
        F.scaled_dot_product_attention(*(head(part, number) for part in (query, key, value))).unflatten(-1, (n, -1))
        for number in range(heads)
    ]
    torch.testing.assert_close(apart(outputs), project(attention.output, torch.cat(contexts, dim=-1)))
