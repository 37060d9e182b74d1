"""Products of a batch of matrices with blocks of vectors, written in the layout of their use.

``torch.bmm`` returns contiguous ``[blocks, features, tokens]``. To join the blocks to vectors ``[tokens, features]``,
they had to be transposed, forward and backward: a third of the time of a training step of Monarch and BLAST on MKL.
Here each block of outputs, or of the inputs' gradient, is written to its place. With MKL and oneDNN on a processor with
AVX-512 the bits were those of ``torch.bmm`` for all drawn shapes but one, whose blocks have a single output.
"""

from typing import Any

import torch
from torch import Tensor

LEAST_TOKENS = 32
"""Tokens from which blocks are written to their places; for fewer, one call for all blocks is faster."""


def batched_product(matrices: Tensor, vectors: Tensor, *, joined: bool = False) -> Tensor:
    """Return the products of matrices with blocks of vectors.

    Shapes: ``[blocks, out, in], [blocks, in, tokens] -> [blocks, out, tokens]``.

    The gradient of the vectors has their layout: if the features of a token's block are contiguous there, they are in
    the gradient, too. ``torch.bmm`` itself computes fewer than 32 tokens (``LEAST_TOKENS``), 16-bit numbers, other
    devices than the CPU, and compiled or exported graphs; the result is contiguous then.

    Args:
        matrices: Matrix of each block.
        vectors: Features of each block for all tokens, in any layout.
        joined: Lay the result out as ``[tokens, blocks · out]`` in memory, so that blocks are joined without a copy.
    """
    if vectors.shape[2] < LEAST_TOKENS or not is_eager_on_cpu(vectors):
        return torch.bmm(matrices, vectors)
    return _Product.apply(matrices, vectors, joined)


def is_eager_on_cpu(vectors: Tensor) -> bool:
    """Return True if products of these vectors run on a CPU in 32 or 64 bits, not compiled and not exported."""
    if torch.compiler.is_compiling() or vectors.device.type != "cpu" or torch.is_autocast_enabled("cpu"):
        return False
    return vectors.dtype in (torch.float32, torch.float64)


class _Product(torch.autograd.Function):
    """Batched product whose result and gradient are written in their layouts; differentiable any number of times."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, vectors: Tensor, joined: bool) -> Tensor:
        """Return the products ``[blocks, out, tokens]``; if joined, a view of contiguous ``[tokens, blocks, out]``."""
        ctx.save_for_backward(matrices, vectors)
        (blocks, size, _), tokens = matrices.shape, vectors.shape[2]
        if not joined:
            return torch.bmm(matrices, vectors)
        rows = vectors.new_empty(tokens, blocks, size)  # each block's rows are contiguous: all libraries are fast then
        torch.bmm(vectors.transpose(1, 2), matrices.transpose(1, 2), out=rows.transpose(0, 1))
        return rows.permute(1, 2, 0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        """Return the gradients of matrices and vectors, ``None`` for one that is not needed."""
        (gradient,), (matrices, vectors) = gradients, ctx.saved_tensors
        of_matrices = torch.bmm(gradient, vectors.transpose(1, 2)) if ctx.needs_input_grad[0] else None
        of_vectors = None
        if ctx.needs_input_grad[1]:
            of_vectors = batched_product(matrices.transpose(1, 2), gradient, joined=vectors.stride(1) == 1)
        return of_matrices, of_vectors, None
