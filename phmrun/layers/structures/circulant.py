"""Circulant: every column is the previous one, shifted down cyclically by one row.

Formula:        W[i, j] = c[(i - j) mod d], so that W x is the circular convolution of c and x
Parameters:     d; 2d with ``variant="released"``
Initialization: c uniform with the dense layer's variance; every entry of W is an entry of c. Networks that start as
                released draw w as the transform of a vector that is uniform on [0, 1): W then has a mean of d/2 and a
                standard deviation of d/√12
Source:         Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers with symmetric and circulant
                weight matrices", PACLIC 2018, section 3.2; as a linear map: Cheng et al. 2015

The parameters are the d real numbers of c. Their spectrum is computed by the real Fourier transform and is therefore
conjugate-symmetric. The released code of Matsuno et al. (TomokiMatsuno/PACLIC32, ``my_linalg.py:85``) learns real and
imaginary parts of the whole spectrum w, with c = Re(F w) and F without a factor: 2d numbers, half of them redundant.
Scores of the same numbers are d times as large there, and so is the effect of a step. For w = F v, c is d·v backwards.

Inner products are computed between spectra. Half of the conjugate-symmetric spectrum, F = ⌊d/2⌋ + 1 complex numbers,
determines the vector. It is stored as 2F real numbers, scaled by √2 if they represent two frequencies. This is an
orthonormal map Q x with QᵀQ = I, so that x·y = Qx·Qy. Torch differentiates its real transform through a complex one of
twice the size; here the gradient of Q is Qᵀ and vice versa.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from phmrun.layers.structure import Application, PackedFactors, Structure, register


class CirculantForm:
    """Bilinear form xᵀ W y as an inner product of spectra.

    W's eigenvalues are a filter.
    """

    def sides(self, maps: Sequence["Circulant"], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return two sides whose inner products are the scores.

        For several labels they are spectra of 2F numbers; for a single label they are x and W y + u themselves. Without
        ``shift``, u is left out. Inputs take the type of c. See :meth:`phmrun.layers.structure.BilinearForm.sides`.
        """
        columns = first_columns(maps)
        x, y = x.to(columns.dtype), y.to(columns.dtype)  # no transform in half precision
        if len(maps) == 1:
            right = convolved(y, columns[0])
            return x, (right if shift is None else right + shift).unsqueeze(-2)
        # One transform of each vector serves all labels; no inverse transform is needed.
        vectors, values = as_complex(spectrum(y)).unsqueeze(-2), eigenvalues(columns)
        shifted = vectors * values if shift is None else torch.addcmul(as_complex(spectrum(shift)), vectors, values)
        return spectrum(x), as_real(shifted)

    def pairs(self, maps: Sequence["Circulant"], x: Tensor, y: Tensor) -> Tensor:
        """Return Re Σ λ̄·(x·ȳ) over frequencies, with λ the eigenvalues of each label.

        See :meth:`phmrun.layers.structure.BilinearForm.pairs`.
        """
        columns = first_columns(maps)
        x, y = x.to(columns.dtype), y.to(columns.dtype)
        cross = as_complex(spectrum(x)) * as_complex(spectrum(y)).conj()
        return F.linear(as_real(cross), as_real(eigenvalues(columns)))


@register("circulant")
class Circulant(Structure):
    """Circulant matrix, applied by the real Fourier transform; square only."""

    formula = "W[i, j] = c[(i - j) mod d]"
    count_formula = "d"
    constraint = "k = d"
    source = "Matsuno et al. 2018, section 3.2"
    examples = ({}, {"variant": "released"})
    application: Application = "factored"
    linear = True
    square = True
    half_precision = False
    bilinear: ClassVar[CirculantForm] = CirculantForm()

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        variant: Annotated[
            Literal["text", "released"], "'text': d numbers of c; 'released': real and imaginary parts of its spectrum"
        ] = "text",
    ) -> None:
        super().__init__(out_features, in_features, variant=variant)
        self.as_released = variant == "released"
        if self.as_released:
            self.real = nn.Parameter(torch.empty(in_features))
            self.imaginary = nn.Parameter(torch.empty(in_features))
        else:
            self.column = nn.Parameter(torch.empty(in_features))

    @torch.no_grad()
    def reset_parameters(self, std: float) -> None:
        """Draw c uniformly with standard deviation ``std``, in place.

        The released variant draws the vector whose transform is w, which is c backwards divided by d.
        """
        bound = math.sqrt(3) * std
        if self.as_released:
            self._set_spectrum(torch.empty_like(self.real).uniform_(-bound, bound) / self.in_features)
        else:
            nn.init.uniform_(self.column, -bound, bound)

    @torch.no_grad()
    def start_as_released(self) -> None:
        """Set w to the transform of a vector that is uniform on [0, 1), in place (``my_linalg.py:114``)."""
        self._set_spectrum(torch.rand_like(self.real))

    def first_column(self) -> Tensor:
        """Return c ``[d]``; for the released variant Re(F w), differentiable."""
        return first_columns([self])[0] if self.as_released else self.column

    def _set_spectrum(self, vector: Tensor) -> None:
        """Set w to the transform of a real vector ``[d]``, in place."""
        spectrum = torch.fft.fft(widened(vector))
        self.real.copy_(spectrum.real)
        self.imaginary.copy_(spectrum.imag)

    def materialize(self) -> Tensor:
        """Return W as sliding windows over two copies of the column."""
        size = self.in_features
        # Two copies of the reversed column contain each row as a slice of d numbers: row i starts at d - 1 - i.
        twice = self.first_column().flip(0).repeat(2)
        return twice.unfold(0, size, 1)[:size].flip(0)

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """Return W x by spectra: O(d·log d) operations per token.

        A half-precision column computes in single precision; the result has the column's type. Without tokens the
        result is empty.
        """
        stored = self.first_column()
        if not len(inputs):  # some Fourier libraries fail on empty batches
            return inputs * stored
        column = widened(stored)
        return convolved(inputs.to(column.dtype), column).to(stored.dtype)

    def token_multiplications(self) -> int:
        """Return an estimate of the multiplications per vector.

        d·log₂ d for each of both transforms, plus 4 for each of ⌊d/2⌋ + 1 complex products.
        """
        return round(2 * self.in_features * math.log2(max(2, self.in_features))) + 4 * (self.in_features // 2 + 1)

    def packed(self) -> nn.Module | None:
        """Return a module with precomputed eigenvalues; None for a column in half precision."""
        column = self.first_column().detach()
        if column.dtype in (torch.bfloat16, torch.float16):
            return None
        return PackedFactors(apply_eigenvalues, [torch.view_as_real(torch.fft.rfft(column))], {})


def first_columns(maps: Sequence[Circulant]) -> Tensor:
    """Return the first columns c of circulant matrices of one variant, ``[maps, d]``, differentiable."""
    if not maps[0].as_released:
        return torch.stack([structure.column for structure in maps])
    real = torch.stack([structure.real for structure in maps])
    imaginary = torch.stack([structure.imaginary for structure in maps])
    return torch.fft.fft(torch.complex(widened(real), widened(imaginary))).real.to(real.dtype)


def widened(values: Tensor) -> Tensor:
    """Return values in single precision at least; half precision has no Fourier transform."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


def apply_eigenvalues(inputs: Tensor, values: Tensor) -> Tensor:
    """Return C x for the circulant matrix with these eigenvalues.

    Shapes: ``[tokens, d] -> [tokens, d]``.

    ``values [F, 2]`` are real and imaginary parts; they give the type of the result. Empty inputs are returned
    themselves.
    """
    if not len(inputs):
        return inputs
    halves = torch.fft.rfft(inputs.to(values.dtype))
    return torch.fft.irfft(halves * torch.view_as_complex(values), inputs.shape[1])


def spectrum(vectors: Tensor) -> Tensor:
    """Return Q x, ``[…, d] -> […, 2F]``, real and imaginary parts interleaved.

    Q is the orthonormal map of the module's docstring. Differentiable any number of times.
    """
    return _Spectrum.apply(vectors)


def signal(spectra: Tensor, size: int) -> Tensor:
    """Return Qᵀ s, ``[…, 2F] -> […, size]``, the inverse of :func:`spectrum`."""
    return _Signal.apply(spectra, size)


def convolved(vectors: Tensor, column: Tensor) -> Tensor:
    """Return C x for the circulant matrix with this first column.

    Shapes: ``[…, d] -> […, d]``, the column is ``[d]``.

    Equal to QᵀΛQ x, in fewer passes over memory. Differentiable once.
    """
    return _Convolved.apply(vectors, column)


def eigenvalues(columns: Tensor) -> Tensor:
    """Return the complex eigenvalues of circulant matrices by their first columns.

    ``[…, d] -> […, F]``.
    """
    size = columns.shape[-1]
    return as_complex(spectrum(columns) * (size**0.5 / _scales(size, columns)))


def as_complex(spectra: Tensor) -> Tensor:
    """Return a view of interleaved real and imaginary parts as complex numbers.

    Shapes: ``[…, 2F] -> […, F]``.
    """
    return torch.view_as_complex(spectra.unflatten(-1, (-1, 2)))


def as_real(values: Tensor) -> Tensor:
    """Return a view of complex numbers as interleaved real and imaginary parts.

    Shapes: ``[…, F] -> […, 2F]``.
    """
    return torch.view_as_real(values).flatten(-2)


def _scales(size: int, like: Tensor) -> Tensor:
    """Return √(number of frequencies that each entry of a spectrum represents), ``[2F]``.

    1 for both parts of real frequencies: the first one and, for an even size, the last. Otherwise √2. Device and type
    are those of ``like``.
    """
    scales = like.new_full((2 * (size // 2 + 1),), 2**0.5)
    scales[:2] = 1.0
    if size % 2 == 0:
        scales[-2:] = 1.0
    return scales


class _Spectrum(Function):
    """Autograd function of :func:`spectrum`, whose gradient is :func:`signal`."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        """Return the spectra ``[…, 2F]`` of real vectors ``[…, n]``."""
        ctx.size = vectors.shape[-1]
        halves = as_real(torch.fft.rfft(vectors, norm="ortho"))
        return halves.mul_(_scales(ctx.size, vectors))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """Return the gradient of the vectors: the signal of ``gradient``."""
        return signal(gradient, ctx.size)


class _Signal(Function):
    """Autograd function of :func:`signal`, whose gradient is :func:`spectrum`."""

    @staticmethod
    def forward(ctx: Any, spectra: Tensor, size: int) -> Tensor:
        """Return the real vectors ``[…, size]`` of spectra ``[…, 2F]``."""
        halves = spectra.contiguous() * _scales(size, spectra).reciprocal_()
        return torch.fft.irfft(as_complex(halves), size, norm="ortho")

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """Return the gradient of the spectra, and None for ``size``."""
        return spectrum(gradient), None


class _Convolved(Function):
    """Autograd function of :func:`convolved`, with gradients of vectors and column."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, column: Tensor) -> Tensor:
        """Return the circular convolution of ``column`` with vectors ``[…, n]``.

        Transforms are saved for the gradients if any is needed.
        """
        ctx.size = vectors.shape[-1]
        values, halves = torch.fft.rfft(column), torch.fft.rfft(vectors)
        if any(ctx.needs_input_grad):
            ctx.save_for_backward(halves, values)
            return torch.fft.irfft(halves * values, ctx.size)
        return torch.fft.irfft(halves.mul_(values), ctx.size)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Return the gradients of the vectors and of the column."""
        halves, values = ctx.saved_tensors
        changes = torch.fft.rfft(gradient)
        of_column = torch.linalg.vecdot(halves.flatten(0, -2), changes.flatten(0, -2), dim=0)
        return torch.fft.irfft(changes.mul_(values.conj()), ctx.size), torch.fft.irfft(of_column, ctx.size)
