"""Batched products are those of ``torch.bmm``, in the layouts that are asked for."""

import pytest
import torch

from phmrun.kernels.batched import LEAST_TOKENS, batched_product
from phmrun.layers.block_matrix import from_blocks, into_blocks

BLOCKS, OUT, IN = 3, 5, 4
FEW, MANY = LEAST_TOKENS - 1, LEAST_TOKENS + 8


def drawn(tokens, *, token_major, dtype=torch.float64):
    torch.manual_seed(0)
    matrices = torch.randn(BLOCKS, OUT, IN, dtype=dtype, requires_grad=True)
    vectors = torch.randn(tokens, BLOCKS * IN, dtype=dtype)
    vectors = vectors if token_major else into_blocks(vectors, BLOCKS, IN).contiguous()
    return matrices, vectors.requires_grad_()


def by_blocks(vectors, token_major):
    return into_blocks(vectors, BLOCKS, IN) if token_major else vectors


@pytest.mark.parametrize("token_major", [True, False])
@pytest.mark.parametrize("joined", [True, False])
@pytest.mark.parametrize("tokens", [1, FEW, MANY])
def test_products_and_gradients_are_those_of_bmm(tokens, joined, token_major):
    matrices, vectors = drawn(tokens, token_major=token_major)
    actual = batched_product(matrices, by_blocks(vectors, token_major), joined=joined)
    expected = torch.bmm(matrices, by_blocks(vectors, token_major))
    torch.testing.assert_close(actual, expected)
    weight = torch.randn_like(expected)
    gradients = [torch.autograd.grad((result * weight).sum(), (matrices, vectors)) for result in (actual, expected)]
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_first_and_second_derivatives_by_finite_differences():
    matrices, vectors = drawn(LEAST_TOKENS, token_major=True)
    matrices, vectors = matrices[:1, :2].detach().requires_grad_(), vectors[:, :IN].detach().requires_grad_()

    def product(matrices, vectors):
        return batched_product(matrices, into_blocks(vectors, 1, IN), joined=True)

    assert torch.autograd.gradcheck(product, (matrices, vectors))
    assert torch.autograd.gradgradcheck(product, (matrices, vectors))


def test_joined_blocks_and_gradients_of_joined_vectors_need_no_copy():
    matrices, vectors = drawn(MANY, token_major=True)
    products = batched_product(matrices, into_blocks(vectors, BLOCKS, IN), joined=True)
    assert from_blocks(products, BLOCKS * OUT).data_ptr() == products.data_ptr()
    layouts = []
    blocks = into_blocks(vectors, BLOCKS, IN)
    blocks.register_hook(lambda gradient: layouts.append(gradient.stride()))
    batched_product(matrices, blocks).sum().backward()
    assert layouts == [(IN, 1, BLOCKS * IN)]
