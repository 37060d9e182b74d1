"""Scaled-dot-product attention, exempt from the oneDNN switch.

torch's flash attention on the CPU computes many small products. Through oneDNN their calls take ten times as long. So
the switch is off inside attention, forward and backward: two identity functions around it set it in the backward pass.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn import functional as F

from phmrun.kernels.switch import NATIVE, ONEDNN, switch, switched


class _Inputs(Function):
    """Identity before attention.

    Its backward pass runs after attention's and sets the switch again.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, ...]:
        """Return views of the three tensors."""
        return query.view_as(query), key.view_as(key), value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        """Set the switch to ``ONEDNN``; return the gradients unchanged."""
        switch(ONEDNN)
        return gradients


class _Output(Function):
    """Identity after attention.

    Its backward pass runs before attention's and removes the switch.
    """

    @staticmethod
    def forward(ctx: Any, context: Tensor) -> Tensor:
        """Return a view of the tensor."""
        return context.view_as(context)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        """Set the switch to ``NATIVE`` if it is ``ONEDNN``.

        Return the gradient unchanged.
        """
        if switched() == ONEDNN:
            switch(NATIVE)
        return gradients[0]


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
    *,
    causal: bool = False,
) -> Tensor:
    """Compute softmax(Q Kᵀ / √head_width + mask) V per head.

    Products use torch's default library, whatever the switch is.

    Args:
        query: ``[batch, heads, length, head_width]``.
        key: ``[batch, heads, memory_length, head_width]``.
        value: Same shape as ``key``.
        mask: Mask of ``F.scaled_dot_product_attention``; torch does not accept it together with ``causal``.
        dropout: Share of attention weights dropped.
        causal: Restrict each position to itself and earlier ones.

    Returns:
        ``[batch, heads, length, head_width]``.
    """
    if torch.compiler.is_compiling() or query.is_cuda or switched() != ONEDNN:
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal=causal)
    query, key, value = _Inputs.apply(query, key, value)
    switch(NATIVE)
    try:
        context = F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal=causal)
    finally:
        switch(ONEDNN)
    return _Output.apply(context)
