"""Dense: every entry of W is a parameter.

Formula:        W is the parameter
Parameters:     k·d for W [k, d]
Initialization: U(-√3·std, √3·std), the same as ``nn.Linear`` for std = 1/√(3d)
Source:         the baseline of every paper
"""

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Structure, draw_uniform, register


@register("dense")
class Dense(Structure):
    """Full matrix, the baseline of every comparison."""

    formula = "W"
    count_formula = "k·d"
    constraint = "none"
    source = "the baseline of every paper"

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)
        self.matrix = nn.Parameter(torch.empty(out_features, in_features))

    def reset_parameters(self, std: float) -> None:
        """Draw W uniformly with standard deviation ``std``, in place."""
        draw_uniform(self.matrix, std)

    @torch.no_grad()
    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Copy ``weight`` to W, in place; the covariance has no influence."""
        self.matrix.copy_(weight)

    def materialize(self) -> Tensor:
        """Return the parameter, without a copy."""
        return self.matrix
