"""The matrix W = Σ_i A_i ⊗ S_i, i = 1 … r, with A ``[r, p, q]`` and S ``[r, k/p, d/q]``: built, looked up, applied.

Never ``torch.kron`` term by term: one matrix product over i makes every block of W, and W need not be made for a row
or for a few tokens.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def kronecker_sum(a: Tensor, s: Tensor) -> Tensor:
    """W ``[k, d]``: one product [pq, r] @ [r, kd/pq] gives the blocks, one permutation puts them in their places."""
    r, p, q = a.shape
    _, block_rows, block_columns = s.shape
    products = a.reshape(r, p * q).t() @ s.reshape(r, -1)  # [(p, q), (block_rows, block_columns)]
    blocks = products.view(p, q, block_rows, block_columns).transpose(1, 2)
    return blocks.reshape(p * block_rows, q * block_columns)


def kronecker_rows(a: Tensor, s: Tensor, index: Tensor) -> Tensor:
    """Rows of W by number, ``[…] -> […, d]``: a gather of each factor and a batched product over i."""
    block_rows = s.shape[1]
    flat = index.reshape(-1)
    block, place = flat // block_rows, flat % block_rows
    mix = a.index_select(1, block).permute(1, 2, 0)  # [tokens, q, i]
    row = mix @ s.index_select(1, place).transpose(0, 1)  # [tokens, q, block_columns]
    return row.reshape(*index.shape, a.shape[2] * s.shape[2])


class Factors(NamedTuple):
    """The two matrices of the factored application, in their order."""

    mixer: Tensor
    weight: Tensor
    mixer_first: bool


def factors(a: Tensor, s: Tensor) -> Factors:
    """A and S laid out for :func:`apply_factors`: A goes first where that takes fewer multiplications."""
    r, p, q = a.shape
    _, block_rows, block_columns = s.shape
    if p * block_columns * (q + block_rows) <= q * block_rows * (block_columns + p):
        mixer = a.transpose(0, 1).reshape(p * r, q)  # [(p, i), q]
        return Factors(mixer, s.transpose(0, 1).reshape(block_rows, r * block_columns), True)
    mixer = a.permute(1, 2, 0).reshape(p, q * r)  # [p, (q, i)]
    return Factors(mixer, s.reshape(r * block_rows, block_columns), False)


def multiplications(a: Tensor, s: Tensor) -> int:
    """Multiplications per token of :func:`apply_factors`."""
    r, p, q = a.shape
    _, block_rows, block_columns = s.shape
    return r * min(p * block_columns * (q + block_rows), q * block_rows * (block_columns + p))


def apply_factors(inputs: Tensor, mixer: Tensor, weight: Tensor, mixer_first: bool) -> Tensor:
    """``inputs [tokens, d] -> [tokens, k]`` in two products.

    The mixer's is a batched one over the tokens: ``@`` would say the same, but take its time to find that out.
    """
    tokens, size = inputs.shape
    rows, columns = weight.shape
    if mixer_first:
        blocks = mixer.shape[1]
        p = mixer.shape[0] * (size // blocks) // columns
        split = inputs.reshape(tokens, blocks, size // blocks)
        mixed = torch.bmm(mixer.expand(tokens, -1, -1), split)  # [tokens, (p, i), block_columns]
        return F.linear(mixed.view(tokens * p, columns), weight).view(tokens, p * rows)
    q = size // columns
    p, between = mixer.shape
    products = F.linear(inputs.reshape(tokens * q, columns), weight)  # [(tokens, q), (i, block_rows)]
    block_rows = rows * q // between
    split = products.view(tokens, between, block_rows)
    return torch.bmm(mixer.expand(tokens, -1, -1), split).view(tokens, p * block_rows)


def unit_mixers(a: Tensor) -> None:
    """Draws A ``[r, p, q]`` in place so that the r numbers of each block of W are a random unit vector.

    Then every block of W has the variance of S, whatever r is. Independent numbers of variance 1/r would do so on
    average over blocks only: with r = 1, a block's deviation would be off by half.
    """
    if a.is_meta:
        return  # there is nothing to draw, and torch works out in Python what the norm would be: most of a count's time
    nn.init.normal_(a)
    with torch.no_grad():
        a.div_(a.norm(dim=0))
