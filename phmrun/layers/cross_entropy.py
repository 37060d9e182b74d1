"""Label-smoothed cross-entropy of an output map, fused with the map itself.

The logits of a few hundred positions at a time are turned into their own gradient in place, so that the
``[positions, vocabulary]`` matrix is never kept: less memory, and about half the passes over it.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

CHUNK = 512


class CrossEntropy(NamedTuple):
    """Sums over positions, in nats: the smoothed loss to minimise, and the plain negative log-likelihood."""

    loss: Tensor
    nll: Tensor


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, smoothing: float = 0.0
) -> CrossEntropy:
    """Σ_t (1 - ε)·(-log p_t[y_t]) + ε·mean_v(-log p_t[v]) with p_t = softmax(W h_t + b).

    Equals ``F.cross_entropy(F.linear(hidden, weight, bias), targets, label_smoothing=ε, reduction="sum")``.

    Args:
        hidden: ``[positions, width]``.
        weight: ``[vocabulary, width]``.
        bias: ``[vocabulary]`` or none.
        targets: ``[positions]`` of token numbers.
        smoothing: ε, the share of probability spread over the vocabulary (Szegedy et al. 2016, section 7).
    """
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing)
    return CrossEntropy(loss, nll)


class _LinearCrossEntropy(Function):
    """Forward computes the gradients along the way; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        needs_gradient = any(ctx.needs_input_grad)
        grad_hidden = torch.empty_like(hidden) if needs_gradient else None
        grad_weight = torch.zeros_like(weight) if needs_gradient else None
        grad_bias = torch.zeros_like(bias) if needs_gradient and bias is not None else None
        loss = weight.new_zeros(())
        nll = weight.new_zeros(())
        for start in range(0, hidden.shape[0], CHUNK):
            part, wanted = hidden[start : start + CHUNK], targets[start : start + CHUNK, None]
            logits = F.linear(part, weight, bias)
            logits = logits.float() if logits.dtype in (torch.bfloat16, torch.float16) else logits
            normaliser = logits.logsumexp(1, keepdim=True)
            part_nll = (normaliser - logits.gather(1, wanted)).sum()
            nll += part_nll
            loss += (1 - smoothing) * part_nll
            if smoothing:
                loss += smoothing * (normaliser.sum() - logits.mean(1).sum())
            if grad_hidden is None or grad_weight is None:
                continue
            gradient = logits.sub_(normaliser).exp_()
            if smoothing:
                gradient.sub_(smoothing / weight.shape[0])
            gradient.scatter_add_(1, wanted, gradient.new_full(wanted.shape, smoothing - 1))
            gradient = gradient.to(part.dtype)
            grad_hidden[start : start + CHUNK] = gradient @ weight.to(part.dtype)
            grad_weight += gradient.t() @ part
            if grad_bias is not None:
                grad_bias += gradient.sum(0)
        ctx.save_for_backward(grad_hidden, grad_weight, grad_bias)
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if saved is None else saved * gradients[0].to(saved.dtype) for saved in ctx.saved_tensors)
        grad_hidden, grad_weight, grad_bias = scaled
        return grad_hidden, grad_weight, grad_bias, None, None
