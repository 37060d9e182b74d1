"""Circulant: every column is the one before it, moved down by one place.

Formula:        W[i, j] = c[(i - j) mod d], so that W x is the circular convolution of c and x
Parameters:     d
Initialisation: Every entry of W is an entry of c: uniform with the dense layer's variance
Source:         Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers with symmetric and circulant
                weight matrices", PACLIC 2018, section 3.2; as a linear map: Cheng et al. 2015

The d real numbers of c are the parameters, and their spectrum is taken by the real Fourier transform, so that it is
conjugate-symmetric by construction. The released code of Matsuno et al. stores real and imaginary parts of the whole
spectrum, 2d numbers of which half are redundant.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor, nn

from phmrun.layers.spectrum import convolved
from phmrun.layers.structure import Application, Structure, register


@register("circulant")
class Circulant(Structure):
    """A circulant matrix, applied by the real Fourier transform; square only."""

    formula = "W[i, j] = c[(i - j) mod d]"
    count_formula = "d"
    constraint = "k = d"
    source = "Matsuno et al. 2018, section 3.2"
    application: ClassVar[Application] = "factored"

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)
        self.column = nn.Parameter(torch.empty(in_features))

    @classmethod
    def check(cls, out_features: int, in_features: int) -> str | None:  # type: ignore[override]
        """Whether W is square."""
        return None if out_features == in_features else "a circulant matrix is square; valid: equal sizes"

    @classmethod
    def count(cls, out_features: int, in_features: int) -> int:  # type: ignore[override]
        """One column."""
        return in_features

    def reset_parameters(self, std: float) -> None:
        """Uniform with standard deviation ``std``."""
        nn.init.uniform_(self.column, -math.sqrt(3) * std, math.sqrt(3) * std)

    def materialize(self) -> Tensor:
        """The column d times over, read again at every place as a view that slides by one."""
        size = self.in_features
        # Twice the reversed column holds every row as a run of d numbers: row i starts at d - 1 - i.
        twice = self.column.flip(0).repeat(2)
        return twice.unfold(0, size, 1)[:size].flip(0)

    def rows(self, index: Tensor) -> Tensor:
        """Row i is c read backwards from place i."""
        places = index.unsqueeze(-1) - torch.arange(self.in_features, device=index.device)
        return self.column[places % self.in_features]

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """Spectra multiplied: d·log d operations per token."""
        if not len(inputs):  # of which the Fourier transform of some libraries knows nothing
            return inputs * self.column
        return convolved(inputs.to(self.column.dtype), self.column)  # no transform in half precision

    def packed(self) -> nn.Module:
        """The eigenvalues, computed once."""
        return PackedCirculant(self.column)


class PackedCirculant(nn.Module):
    """y = W x by the Fourier transform, for inference."""

    def __init__(self, column: Tensor) -> None:
        super().__init__()
        values = torch.view_as_real(torch.fft.rfft(column.detach()))
        self.eigenvalues = nn.Parameter(values.clone(), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[tokens, d] -> [tokens, d]``."""
        if not len(inputs):
            return inputs
        halves = torch.fft.rfft(inputs.to(self.eigenvalues.dtype))
        return torch.fft.irfft(halves * torch.view_as_complex(self.eigenvalues), inputs.shape[1])
