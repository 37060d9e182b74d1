"""Bilinear forms of pairs, in parts, against an Einstein sum."""

import pytest
import torch

from phmrun.kernels.bilinear import PART, bilinear_forms


def drawn(pairs, dtype=torch.float64):
    torch.manual_seed(0)
    shapes = (3, 4, 5), (pairs, 4), (pairs, 5)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("pairs", [0, 1, PART, 2 * PART + 3])
def test_forms_and_gradients_are_those_of_an_einstein_sum(pairs):
    inputs = drawn(pairs)
    actual, expected = bilinear_forms(*inputs), torch.einsum("lij,ni,nj->nl", *inputs)
    torch.testing.assert_close(actual, expected)
    weight = torch.randn_like(expected)
    gradients = [torch.autograd.grad((result * weight).sum(), inputs) for result in (actual, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_sixteen_bits_are_computed_at_once():
    inputs = drawn(9, torch.bfloat16)
    actual = bilinear_forms(*inputs)
    assert actual.dtype is torch.bfloat16
    exact = torch.einsum("lij,ni,nj->nl", *(value.double() for value in inputs))
    torch.testing.assert_close(actual.double(), exact, rtol=0.05, atol=0.2)
