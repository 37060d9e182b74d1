"""Bilinear forms of pairs of vectors, computed in parts that stay in the cache.

For all pairs at once, the vectors W y of all labels are written to memory and read back, and their gradient is a batch
of outer products, for which MKL has no fast kernel.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from phmrun.kernels.batched import is_eager_on_cpu

PART = 128
"""Pairs of a part."""


def bilinear_forms(matrices: Tensor, x: Tensor, y: Tensor) -> Tensor:
    """Return x·W y of each pair and matrix.

    Shapes: ``[labels, left, right], [pairs, left], [pairs, right] -> [pairs, labels]``. On a CPU there is no second
    derivative. 16-bit numbers, other devices, and compiled or exported graphs are computed all at once.
    """
    if is_eager_on_cpu(y):
        return _BilinearForms.apply(matrices, x, y)
    mapped = F.linear(y, matrices.flatten(0, 1)).unflatten(-1, (len(matrices), -1))
    return (mapped @ x.unsqueeze(-1)).squeeze(-1)


class _BilinearForms(torch.autograd.Function):
    """Bilinear forms of pairs, part by part."""

    @staticmethod
    def forward(ctx: Any, matrices: Tensor, x: Tensor, y: Tensor) -> Tensor:
        """Return the forms, ``[pairs, labels]``; keep W y of all pairs for the gradient."""
        labels, flat = len(matrices), matrices.flatten(0, 1)
        mapped, forms = x.new_empty(len(x), len(flat)), x.new_empty(len(x), labels)
        for left, right, read, form in zip(*(values.split(PART) for values in (x, y, mapped, forms)), strict=True):
            torch.mm(right, flat.t(), out=read)
            torch.bmm(read.unflatten(1, (labels, -1)), left.unsqueeze(-1), out=form.unsqueeze(-1))
        ctx.save_for_backward(flat, x, y, mapped)
        return forms

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of matrices, x and y."""
        flat, x, y, mapped = ctx.saved_tensors
        labels = gradient.shape[1]
        of_matrices, of_x, of_y = torch.zeros_like(flat), torch.empty_like(x), torch.empty_like(y)
        parts = (values.split(PART) for values in (gradient, x, y, mapped, of_x, of_y))
        for form, left, right, read, of_left, of_right in zip(*parts, strict=True):
            torch.bmm(form.unsqueeze(1), read.unflatten(1, (labels, -1)), out=of_left.unsqueeze(1))
            outer = (form.unsqueeze(2) * left.unsqueeze(1)).flatten(1)
            torch.mm(outer, flat, out=of_right)
            of_matrices.addmm_(outer.t(), right)
        return of_matrices.unflatten(0, (labels, -1)), of_x, of_y
