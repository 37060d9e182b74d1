"""Dense: every entry of W is a parameter.

Formula:        W = the parameter itself
Parameters:     k·d for W [k, d]
Initialisation: U(-√3·std, √3·std), which is ``nn.Linear``'s own for std = 1/√(3d)
Source:         the baseline of every paper
"""

import math

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Structure, register


@register("dense")
class Dense(Structure):
    """The full matrix, the baseline that every structure is compared with."""

    formula = "W"
    count_formula = "k·d"
    constraint = "none"
    source = "the baseline of every paper"

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)
        self.matrix = nn.Parameter(torch.empty(out_features, in_features))

    def reset_parameters(self, std: float) -> None:
        """Uniform with standard deviation ``std``."""
        bound = math.sqrt(3) * std
        nn.init.uniform_(self.matrix, -bound, bound)

    @torch.no_grad()
    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """The matrix itself."""
        self.matrix.copy_(weight)

    def materialize(self) -> Tensor:
        """The parameter itself; nothing is copied."""
        return self.matrix
