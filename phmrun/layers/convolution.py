"""``nn.Conv1d`` and ``nn.Conv2d`` whose filters have a structure.

A convolution is a linear map of unfolded patches: the filters of a group are a matrix W
[out / groups, in / groups · kernel]. Its columns are ordered by channel, then by kernel position. PHM over this matrix
is the parameterized hypercomplex convolution (PHC; Grassucci, Zhang and Comminiello 2022), W = Σ_i A_i ⊗ F_i, if n
divides the channels of a group.
"""

import math
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Structure, build_weight

SETTINGS = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode")
"""Arguments of torch's convolutions that the structured one keeps as attributes."""


class Convolution(nn.Module):
    """Convolution whose filters have a structure, one map for each group.

    Args:
        plain: Convolution whose class, settings and bias it takes over.
        maps: Structures of the groups, in order, each ``[out / groups, in / groups · kernel]``.
    """

    def __init__(self, plain: nn.Conv1d | nn.Conv2d, maps: Sequence[Structure] | nn.ModuleList) -> None:
        super().__init__()
        self.kind = type(plain)
        for name in (*SETTINGS, "_reversed_padding_repeated_twice"):
            setattr(self, name, getattr(plain, name))
        self.maps = maps if isinstance(maps, nn.ModuleList) else nn.ModuleList(maps)
        self.bias = plain.bias

    @property
    def weight(self) -> Tensor:
        """Dense filters ``[out_channels, in_channels / groups, *kernel_size]``, differentiable in the parameters."""
        channels, groups = cast(int, self.in_channels), cast(int, self.groups)
        weights = [build_weight(cast(Structure, part)) for part in self.maps]
        matrix = weights[0] if len(weights) == 1 else torch.cat(weights)
        return matrix.view(-1, channels // groups, *cast(tuple[int, ...], self.kernel_size))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the convolution of the inputs with the filters, plus the bias (if any).

        Shapes are those of torch's convolution of the same kind.
        """
        outputs: Tensor = self.kind._conv_forward(cast(Any, self), inputs, self.weight, self.bias)
        return outputs

    @torch.no_grad()
    def plain(self) -> nn.Module:
        """Return torch's convolution with a copy of the dense filters.

        The copy gets no gradient. The bias is the same parameter.
        """
        settings = {name: getattr(self, name) for name in SETTINGS}
        plain: nn.Conv1d | nn.Conv2d = self.kind(**settings, bias=self.bias is not None, device="meta")
        plain.weight = nn.Parameter(self.weight.detach().clone(), requires_grad=False)
        plain.bias = self.bias
        return plain


def matrix_shape(plain: nn.Conv1d | nn.Conv2d) -> tuple[int, int]:
    """Return the rows and columns of each group's matrix.

    They are out / groups and in / groups · the product of the kernel's sizes.
    """
    return plain.out_channels // plain.groups, plain.in_channels // plain.groups * math.prod(plain.kernel_size)
