"""Scaled-dot-product attention, exempt from the oneDNN switch.

torch's flash attention on the CPU computes many small products. Through oneDNN their calls take ten times as long. So
the switch is off inside attention, forward and backward: two hooks set it in the backward pass.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from phmrun.kernels.switch import NATIVE, ONEDNN, switch, switched


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
    inputs = [query, key, value]
    for place, part in enumerate(inputs):
        if part.requires_grad:  # the newest node before attention is the first after it, backward
            inputs[place] = part.view_as(part)
            inputs[place].register_hook(lambda _: switch(ONEDNN))
            break
    query, key, value = inputs
    switch(NATIVE)
    try:
        context = F.scaled_dot_product_attention(query, key, value, mask, dropout, is_causal=causal)
    finally:
        switch(ONEDNN)
    if context.requires_grad:
        context.register_hook(lambda _: switch(NATIVE) if switched() == ONEDNN else None)
    return context
