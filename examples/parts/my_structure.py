"""My structure: W is one block of rows, repeated.

Formula:        W[i, j] = a[i mod k/b, j], a [k/b, d]
Parameters:     k·d/b
Initialisation: a has the standard deviation of a dense layer's W, since each number of W is one of a
Source:         a template; change the formula, the count and the constraint with the code
"""

from typing import Annotated

import torch
from torch import Tensor, nn

from phmrun.layers import Structure, register


@register("my-structure")
class MyStructure(Structure):
    """Block of k/b rows, repeated b times."""

    formula = "W[i, j] = a[i mod k/b, j]"
    count_formula = "k·d/b"
    constraint = "b divides k"
    source = "a template"
    examples = ({"blocks": 4},)

    def __init__(
        self, out_features: int, in_features: int, *, blocks: Annotated[int, "Blocks b of rows; divides k"] = 2
    ) -> None:
        super().__init__(out_features, in_features, blocks=blocks)
        self.blocks = blocks
        self.a = nn.Parameter(torch.empty(out_features // blocks, in_features))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, blocks: int) -> str | None:  # type: ignore[override]
        """Return a reason, with the valid values, if the options do not fit the sizes."""
        fits = blocks >= 1 and out_features % blocks == 0
        return None if fits else f"blocks = {blocks}; valid blocks: divisors of {out_features}"

    def reset_parameters(self, std: float) -> None:
        """Draw the parameters such that the numbers of W have mean 0 and standard deviation ``std``."""
        nn.init.normal_(self.a, std=std)

    def materialize(self) -> Tensor:
        """W ``[out_features, in_features]``."""
        return self.a.repeat(self.blocks, 1)
