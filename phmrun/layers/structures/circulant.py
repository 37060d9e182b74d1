"""Circulant: every column is the one before it, moved down by one place.

Formula:        W[i, j] = c[(i - j) mod d], so that W x is the circular convolution of c and x
Parameters:     d
Initialisation: Every entry of W is an entry of c: uniform with the dense layer's variance
Source:         Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers with symmetric and circulant
                weight matrices", PACLIC 2018, section 3.2; as a linear map: Cheng et al. 2015

The d real numbers of c are the parameters, and their spectrum is taken by the real Fourier transform, so that it is
conjugate-symmetric by construction. The released code of Matsuno et al. stores real and imaginary parts of the whole
spectrum, 2d numbers of which half are redundant.

The real transform is an orthonormal map between real vectors here, so that inner products can be taken there: half of
the conjugate-symmetric spectrum of d numbers, F = ⌊d/2⌋ + 1 complex numbers, says all. Stored as 2F real numbers, those
that stand for two frequencies scaled by √2, it is Q x with QᵀQ = 1: x·y = Qx·Qy. Torch would differentiate its real
transform through the complex one of twice the size; here each way is the other's gradient.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from phmrun.layers.fitting import best_circulant_blocks
from phmrun.layers.inference import PackedFactors
from phmrun.layers.structure import Application, Structure, register


class CirculantForm:
    """xᵀ W y by the Fourier transform: an inner product of spectra, which every label filters with its eigenvalues."""

    def sides(self, maps: Sequence["Circulant"], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`phmrun.layers.structure.BilinearForm.sides`; one label needs no spectrum of x."""
        columns = torch.stack([structure.column for structure in maps])
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
        columns = torch.stack([structure.column for structure in maps])
        x, y = x.to(columns.dtype), y.to(columns.dtype)
        cross = as_complex(spectrum(x)) * as_complex(spectrum(y)).conj()
        return F.linear(as_real(cross), as_real(eigenvalues(columns)))


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
        return PackedFactors(apply_eigenvalues, torch.view_as_real(torch.fft.rfft(self.column.detach())))


def apply_eigenvalues(inputs: Tensor, values: Tensor) -> Tensor:
    """``[tokens, d] -> [tokens, d]`` by the eigenvalues, real and imaginary parts ``[F, 2]``."""
    if not len(inputs):
        return inputs
    halves = torch.fft.rfft(inputs.to(values.dtype))
    return torch.fft.irfft(halves * torch.view_as_complex(values), inputs.shape[1])


def spectrum(vectors: Tensor) -> Tensor:
    """Q x, ``[…, d] -> […, 2F]``: real and imaginary parts side by side."""
    return _Spectrum.apply(vectors)


def signal(spectra: Tensor, size: int) -> Tensor:
    """Qᵀ s, ``[…, 2F] -> […, size]``; the inverse of :func:`spectrum`."""
    return _Signal.apply(spectra, size)


def convolved(vectors: Tensor, column: Tensor) -> Tensor:
    """C x for the circulant matrix C with first column ``[d]``, ``[…, d] -> […, d]``: QᵀΛQ x with fewer passes."""
    return _Convolved.apply(vectors, column)


def eigenvalues(columns: Tensor) -> Tensor:
    """The complex eigenvalues of the circulant matrices with first columns ``[…, d]``, those of half the spectrum."""
    size = columns.shape[-1]
    return as_complex(spectrum(columns) * (size**0.5 / _scales(size, columns)))


def as_complex(spectra: Tensor) -> Tensor:
    """Real and imaginary parts side by side as complex numbers, ``[…, 2F] -> […, F]``."""
    return torch.view_as_complex(spectra.unflatten(-1, (-1, 2)))


def as_real(values: Tensor) -> Tensor:
    """The inverse of :func:`as_complex`."""
    return torch.view_as_real(values).flatten(-2)


def _scales(size: int, like: Tensor) -> Tensor:
    """√(number of frequencies that each stands for), twice each, ``[2F]``."""
    scales = like.new_full((2 * (size // 2 + 1),), 2**0.5)
    scales[:2] = 1.0
    if size % 2 == 0:
        scales[-2:] = 1.0
    return scales


class _Spectrum(Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        ctx.size = vectors.shape[-1]
        halves = as_real(torch.fft.rfft(vectors, norm="ortho"))
        return halves.mul_(_scales(ctx.size, vectors))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return signal(gradient, ctx.size)


class _Signal(Function):
    @staticmethod
    def forward(ctx: Any, spectra: Tensor, size: int) -> Tensor:
        halves = spectra.contiguous() * _scales(size, spectra).reciprocal_()
        return torch.fft.irfft(as_complex(halves), size, norm="ortho")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return spectrum(gradient), None


class _Convolved(Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor, column: Tensor) -> Tensor:
        ctx.size = vectors.shape[-1]
        values, halves = torch.fft.rfft(column), torch.fft.rfft(vectors)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(halves, values)
            return torch.fft.irfft(halves * values, ctx.size)
        return torch.fft.irfft(halves.mul_(values), ctx.size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        halves, values = ctx.saved_tensors
        changes = torch.fft.rfft(gradient)
        of_column = torch.linalg.vecdot(halves.flatten(0, -2), changes.flatten(0, -2), dim=0)
        return torch.fft.irfft(changes.mul_(values.conj()), ctx.size), torch.fft.irfft(of_column, ctx.size)
