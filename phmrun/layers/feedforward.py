"""The position-wise feed-forward block of the Transformer over any structure."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.linear import Linear, glorot_std


class FeedForward(nn.Module):
    """y = W₂ · dropout(relu(W₁ x + b₁)) + b₂ (Vaswani et al. 2017, eq. 2).

    Args:
        width: Size of an input and output vector.
        inner: Size of the hidden vector.
        dropout: Share of hidden activations dropped in training.
        structure: Name of the structure of both maps.
        **options: Its options.
    """

    def __init__(
        self, width: int, inner: int, dropout: float = 0.0, *, structure: str = "dense", **options: Any
    ) -> None:
        super().__init__()
        self.expand = Linear(width, inner, structure=structure, **options)
        self.contract = Linear(inner, width, structure=structure, **options)
        self.dropout = dropout
        for linear in (self.expand, self.contract):
            linear.reset_parameters(glorot_std(width, inner), zero_bias=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[…, width] -> […, width]``."""
        hidden = F.relu(self.expand(inputs))
        return self.contract(F.dropout(hidden, self.dropout, self.training))
