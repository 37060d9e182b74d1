"""Kronecker sums against ``torch.kron`` and against the reshaped factorisation that they stand for."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from phmrun.layers import Embedding, build_structure
from phmrun.layers.structures.kronecker import APART, ceil_shapes, nearest_shapes


def kron_sum(structure):
    a, b = structure.a.permute(2, 0, 1), structure.b.transpose(0, 1)
    whole = sum(torch.kron(a[i].contiguous(), b[i].contiguous()) for i in range(len(a)))
    return whole[: structure.out_features, : structure.in_features]


@pytest.mark.parametrize("size", [(512, 512), (48, 36), (97, 64), (64, 97), (1, 12), (97, 1), (101, 103), (7, 5)])
@pytest.mark.parametrize("rank", [1, 4])
@pytest.mark.parametrize("factors", ["ceil", "divisors"])
def test_it_is_the_sum_of_kronecker_products(size, rank, factors):
    torch.manual_seed(0)
    structure = build_structure("kronecker", *size, rank=rank, factors=factors).double()
    structure.reset_parameters(0.5)
    torch.testing.assert_close(structure.materialize(), kron_sum(structure))


@pytest.mark.parametrize(
    ("size", "rank", "count", "ours"),
    [
        ((32128, 512), 256, 256 * 2 * 180 * 23, 256 * (4016 + 4096)),  # T5-small's table: 2.1M
        ((512, 512), 16, 16 * 2 * 23 * 23, 16 * 1024),
        ((2048, 512), 16, 16 * 2 * 46 * 23, 16 * 2048),
        ((1024, 512), 64, 64 * 2 * 32 * 23, 64 * (1024 + 512)),
        ((6632, 512), 256, 256 * 2 * 82 * 23, 256 * (1658 + 2048)),
    ],
)
def test_counts_by_hand(size, rank, count, ours):
    with torch.device("meta"):
        for factors, numbers in (("ceil", count), ("divisors", ours)):
            assert build_structure("kronecker", *size, rank=rank, factors=factors).kept() == numbers


@given(rows=st.integers(1, 5000), columns=st.integers(1, 5000))
def test_the_factors_of_the_paper_are_the_least_squares_that_cover(rows, columns):
    p, q, s, t = ceil_shapes(rows, columns)
    assert (p, q) == (s, t)
    assert (p - 1) ** 2 < rows <= p * p
    assert (q - 1) ** 2 < columns <= q * q


@settings(max_examples=200, deadline=None)
@given(rows=st.integers(1, 600), columns=st.integers(1, 200))
def test_the_factors_are_as_near_as_integers_allow_or_padded_by_less_than_a_block(rows, columns):
    p, q, s, t = shapes = nearest_shapes(rows, columns)
    least = min(a + rows * columns // a for a in range(1, rows * columns + 1) if rows * columns % a == 0)
    ideal = 2 * math.sqrt(rows * columns)
    if (p * s, q * t) == (rows, columns):
        assert shapes.numbers == least
        assert least <= (APART**0.5 + APART**-0.5) / 2 * ideal + 1e-9
        return
    assert least > (APART**0.5 + APART**-0.5) / 2 * ideal - 1e-9
    assert rows <= p * s < rows + min(p, s)
    assert columns <= q * t < columns + min(q, t)
    assert (p * s == rows) or (q * t == columns)
    assert shapes.numbers < least


class Largest(TorchDispatchMode):
    """Remembers how many numbers the largest tensor has that any operation makes, gradients included."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        outputs = function(*args, **(kwargs or {}))
        for output in outputs if isinstance(outputs, tuple | list) else [outputs]:
            if isinstance(output, torch.Tensor):
                self.numbers = max(self.numbers, output.numel())
        return outputs


def test_a_lookup_in_ten_million_rows_builds_no_table():
    with Largest() as largest:
        table = Embedding(10_000_000, 512, structure="kronecker", rank=16)
        vectors = table(torch.randint(10_000_000, (640,)))
        vectors.sum().backward()
    assert vectors.shape == (640, 512)
    gathered = 640 * 16 * sum(table.structure.shapes[1::2])  # of each token, a row of every A and of every B
    assert largest.numbers <= max(gathered, table.structure.kept()) < 10_000_000
