"""Sinusoidal position vectors (Vaswani et al. 2017, section 3.5)."""

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """sin and cos of position / 10000^(i / (width/2 - 1)), sines before cosines, as in tensor2tensor.

    Args:
        width: Size of a position vector; even.
        length: Positions computed ahead; longer inputs extend the table.
    """

    table: Tensor

    def __init__(self, width: int, length: int = 512) -> None:
        super().__init__()
        self.width = width
        self.register_buffer("table", sinusoids(length, width), persistent=False)

    def forward(self, length: int) -> Tensor:
        """The first ``length`` position vectors, ``[length, width]``."""
        if length > self.table.shape[0]:
            self.table = sinusoids(2 * length, self.width).to(self.table)
        return self.table[:length]


def sinusoids(length: int, width: int) -> Tensor:
    """Position vectors ``[length, width]``, computed in double precision."""
    rates = torch.exp(torch.arange(width // 2, dtype=torch.float64) * (-math.log(10000.0) / max(width // 2 - 1, 1)))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())
