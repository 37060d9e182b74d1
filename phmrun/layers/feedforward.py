"""The position-wise feed-forward block of the Transformer over any structure."""

from collections.abc import Mapping
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.linear import Linear, glorot_std

Activation = Literal["relu", "swish"]
ACTIVATIONS = {"relu": F.relu, "swish": F.silu}


class FeedForward(nn.Module):
    """y = W₂ · dropout(f(W₁ x + b₁)) + b₂, f the ReLU (Vaswani et al. 2017, eq. 2) or swish, x·σ(x).

    Args:
        width: Size of an input and output vector.
        inner: Size of the hidden vector.
        dropout: Share of hidden activations dropped in training.
        bias: Whether the two maps have biases.
        activation: f.
        contract: Structure and options of the second map, where it is to differ from the first.
        structure: Name of the structure of both maps.
        **options: Its options.
    """

    def __init__(
        self,
        width: int,
        inner: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        activation: Activation = "relu",
        contract: Mapping[str, Any] | None = None,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        second = {"structure": structure, **options} if contract is None else contract
        self.expand = Linear(width, inner, bias, structure=structure, **options)
        self.contract = Linear(inner, width, bias, **second)
        self.dropout = dropout
        self.activation = activation
        for linear in (self.expand, self.contract):
            linear.reset_parameters(glorot_std(width, inner), zero_bias=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[…, width] -> […, width]``."""
        hidden = ACTIVATIONS[self.activation](self.expand(inputs))
        return self.contract(F.dropout(hidden, self.dropout, self.training))
