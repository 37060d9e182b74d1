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
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.fitting import best_circulant_blocks
from phmrun.layers.spectrum import as_complex, as_real, convolved, eigenvalues, spectrum
from phmrun.layers.structure import Application, Structure, register


class CirculantForm:
    """xᵀ W y by the Fourier transform: an inner product of spectra, which every label filters with its eigenvalues."""

    def sides(self, maps: Sequence["Circulant"], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`phmrun.layers.structure.BilinearForm.sides`; one label needs no spectrum of x."""
        columns = _columns(maps)
        x, y = x.to(columns.dtype), y.to(columns.dtype)  # no transform in half precision
        if len(maps) == 1:
            right = convolved(y, columns[0])
            return x, (right if shift is None else right + shift).unsqueeze(-2)
        # One transform of each vector serves all labels; none is needed to go back.
        vectors, values = as_complex(spectrum(y)).unsqueeze(-2), eigenvalues(columns)
        shifted = vectors * values if shift is None else torch.addcmul(as_complex(spectrum(shift)), vectors, values)
        return spectrum(x), as_real(shifted)

    def pairs(self, maps: Sequence["Circulant"], x: Tensor, y: Tensor) -> Tensor:
        """Re Σ x̄·λ·y = Re Σ λ̄·(x·ȳ) per frequency: an inner product of real and imaginary parts with those of λ."""
        columns = _columns(maps)
        x, y = x.to(columns.dtype), y.to(columns.dtype)
        cross = as_complex(spectrum(x)) * as_complex(spectrum(y)).conj()
        return F.linear(as_real(cross), as_real(eigenvalues(columns)))


def _columns(maps: Sequence["Circulant"]) -> Tensor:
    """``[labels, in_features]``."""
    return torch.stack([structure.column for structure in maps])


@register("circulant")
class Circulant(Structure):
    """A circulant matrix, applied by the real Fourier transform; square only."""

    formula = "W[i, j] = c[(i - j) mod d]"
    count_formula = "d"
    constraint = "k = d"
    source = "Matsuno et al. 2018, section 3.2"
    application: Application = "factored"
    square = True
    half_precision = False
    bilinear: ClassVar[CirculantForm] = CirculantForm()

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)
        self.column = nn.Parameter(torch.empty(in_features))

    def reset_parameters(self, std: float) -> None:
        """Uniform with standard deviation ``std``."""
        nn.init.uniform_(self.column, -math.sqrt(3) * std, math.sqrt(3) * std)

    @torch.no_grad()
    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Means along the diagonals; with a covariance, a linear regression."""
        self.column.copy_(best_circulant_blocks(weight, self.in_features, covariance)[0, 0])

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

    def token_multiplications(self) -> int:
        """d·log₂ d for the transform of d real numbers there and back each, four for each complex product."""
        return round(2 * self.in_features * math.log2(max(2, self.in_features))) + 4 * (self.in_features // 2 + 1)

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
