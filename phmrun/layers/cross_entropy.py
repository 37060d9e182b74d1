"""Label-smoothed cross-entropy, fused with the output map.

The logits of 512 positions at a time are replaced by their gradient in place. The ``[positions, vocabulary]`` matrix is
never stored, which saves memory and about half of the passes over it.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

CHUNK = 512


class CrossEntropy(NamedTuple):
    """Sums over positions in nats: the smoothed loss, and the negative log-likelihood."""

    loss: Tensor
    nll: Tensor


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, *, smoothing: float = 0.0
) -> CrossEntropy:
    """Compute the label-smoothed cross-entropy of softmax(W h + b), summed.

    Loss: Σ_t (1 - ε)·(-log p_t[y_t]) + ε·mean_v(-log p_t[v]) with p_t = softmax(W h_t + b), in nats. It equals
    ``F.cross_entropy(F.linear(hidden, weight, bias), targets, label_smoothing=ε, reduction="sum")``. The negative
    log-likelihood has no gradient.

    Args:
        hidden: ``[positions, width]``.
        weight: ``[vocabulary, width]``.
        bias: ``[vocabulary]`` or None.
        targets: ``[positions]`` of token numbers; all positions count.
        smoothing: ε, the share of probability spread over the vocabulary (Szegedy et al. 2016, section 7).

    Returns:
        Both sums in nats, in at least 32 bits. Without positions they are 0.
    """
    # In its forward, an autograd function cannot see whether gradients are wanted.
    loss, nll = _LinearCrossEntropy.apply(hidden, weight, bias, targets, smoothing, torch.is_grad_enabled())
    return CrossEntropy(loss, nll)


class _LinearCrossEntropy(Function):
    """Autograd function that computes the gradients in ``forward``.

    ``backward`` scales them.

    With e = exp(logits - max) and Z = Σ_v e, the gradient of a position is e/Z - (1 - ε)·onehot - ε/vocabulary. Only e
    is stored, in one buffer for all chunks. 1/Z scales the narrow side of each product, and the constant ε/vocabulary
    contributes a sum of rows.
    """

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float, graded: bool
    ) -> tuple[Tensor, Tensor]:
        """Return loss and negative log-likelihood; save the gradients of the loss.

        Gradients of hidden, weight and bias are computed if ``graded`` and any needs one, otherwise none. 512 positions
        share a buffer of logits at a time. Under autocast, products are in its type; sums are in at least 32 bits.
        """
        device, vocabulary = hidden.device.type, weight.shape[0]
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight.dtype
        total = torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
        with torch.autocast(device, enabled=False):
            narrow, table = hidden.to(dtype), weight.to(dtype)
            even = smoothing / vocabulary
            mean_row = table.to(total).mean(0)
            wants_gradients = graded and any(ctx.needs_input_grad)
            grads = _Gradients(hidden, weight, bias, total) if wants_gradients else None
            loss, nll = hidden.new_zeros((), dtype=total), hidden.new_zeros((), dtype=total)
            buffer = narrow.new_empty(min(CHUNK, len(targets)), vocabulary)
            for start in range(0, len(targets), CHUNK):
                rows = slice(start, start + CHUNK)
                part, wanted = narrow[rows], targets[rows, None]
                logits = torch.mm(part, table.t(), out=buffer[: len(part)])
                if bias is not None:
                    logits.add_(bias.to(dtype))
                logits = logits.to(total)
                top = logits.amax(1, keepdim=True)
                chosen = logits.gather(1, wanted)
                # In place: logits are the largest tensors of a training step, and all chunks share one buffer.
                raised = logits.sub_(top).exp_()
                partition = raised.sum(1, keepdim=True)
                normalizer = partition.log().add_(top)
                part_nll = (normalizer - chosen).sum()
                nll += part_nll
                loss += (1 - smoothing) * part_nll
                if smoothing:
                    mean = part.to(total) @ mean_row
                    if bias is not None:
                        mean += bias.to(total).mean()
                    loss += smoothing * (normalizer.squeeze(1) - mean).sum()
                if grads is not None:
                    raised.scatter_add_(1, wanted, partition * (smoothing - 1))
                    grads.add(rows, raised.to(dtype), partition.reciprocal(), part, table, mean_row, even)
        if grads is not None:
            ctx.save_for_backward(*grads.results())
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Return the saved gradients, times the loss's gradient.

        They are those of hidden, weight and bias, then None for the other arguments. That of a missing bias is None.
        """
        scaled = (None if saved is None else saved * gradients[0].to(saved.dtype) for saved in ctx.saved_tensors)
        return *scaled, None, None, None


class _Gradients:
    """Gradients of hidden, weight and bias, accumulated chunk by chunk."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> None:
        self.hidden = torch.empty_like(hidden)
        self.weight = torch.zeros_like(weight, dtype=dtype)
        self.bias = None if bias is None else torch.zeros_like(bias, dtype=dtype)
        self.types = weight.dtype

    def add(
        self, rows: slice, raised: Tensor, scale: Tensor, part: Tensor, table: Tensor, mean_row: Tensor, even: float
    ) -> None:
        """Add the gradients of a chunk of positions, in place.

        Args:
            rows: Positions of the chunk.
            raised: Unnormalized gradient of the logits ``[positions, vocabulary]``.
            scale: 1/Z ``[positions, 1]``.
            part: Hidden vectors of the chunk.
            table: W.
            mean_row: Mean row of W.
            even: ε / vocabulary.
        """
        sum_of_rows = mean_row * (len(table) * even)
        self.hidden[rows] = (raised @ table).to(scale.dtype).mul_(scale).sub_(sum_of_rows)
        scaled = (part.to(scale.dtype) * scale).to(part.dtype)
        if self.weight.dtype == raised.dtype:
            self.weight.addmm_(raised.t(), scaled)
        else:
            self.weight.add_(raised.t() @ scaled)
        if even:
            self.weight.sub_(part.to(scale.dtype).sum(0), alpha=even)
        if self.bias is not None:
            self.bias.add_((scale.t().to(raised.dtype) @ raised).squeeze(0)).sub_(even * len(part))

    def results(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of hidden, weight and bias.

        They have the types of these tensors. The bias's is None if there is no bias.
        """
        bias = None if self.bias is None else self.bias.to(self.types)
        return self.hidden, self.weight.to(self.types), bias
