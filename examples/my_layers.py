"""A layer of your own: a Toeplitz matrix, constant along its diagonals, in the place of any weight matrix.

Use it without installing anything:

    phmrun layers --plugin examples/my_layers.py
    phmrun count-params nmt --plugin examples/my_layers.py --layer mine
    phmrun bench layers --plugin examples/my_layers.py --layer mine
    phmrun train nmt --plugin examples/my_layers.py --layer mine --set layer.scale=2

In a package of your own, announce it instead in the entry-point group "phmrun.structures": mine = "my_layers:Toeplitz".
"""

from typing import Annotated

import torch
from torch import Tensor, nn

from phmrun.layers import Structure, register


@register("mine")
class Toeplitz(Structure):
    """A matrix that is constant along each diagonal."""

    formula = "W[i, j] = scale · t[i - j + d - 1]"
    count_formula = "k + d - 1"
    source = "an example"
    examples = ({"scale": 2.0},)

    def __init__(
        self, out_features: int, in_features: int, *, scale: Annotated[float, "Factor on all of W."] = 1.0
    ) -> None:
        super().__init__(out_features, in_features, scale=scale)
        self.scale = scale
        self.diagonals = nn.Parameter(torch.empty(out_features + in_features - 1))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, scale: float) -> str | None:
        """Why the options do not fit; None where they do."""
        return None if scale > 0 else f"scale = {scale}; valid: above 0"

    def reset_parameters(self, std: float) -> None:
        """Entries of W with standard deviation ``std``."""
        nn.init.normal_(self.diagonals, std=std / self.scale)

    def materialize(self) -> Tensor:
        """W: row i is the run of d diagonals that ends with diagonal i, read backwards."""
        return self.scale * self.diagonals.unfold(0, self.in_features, 1).flip(1)
