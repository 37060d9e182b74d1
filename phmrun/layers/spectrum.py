"""The real Fourier transform as an orthonormal map between real vectors, so that inner products can be taken there.

A real vector of d numbers has a conjugate-symmetric spectrum; half of it, F = ⌊d/2⌋ + 1 complex numbers, says all.
Stored as 2F real numbers, those that stand for two frequencies scaled by √2, it is Q x with QᵀQ = 1: x·y = Qx·Qy. Torch
would differentiate its real transform through the complex one of twice the size; here each way is the other's gradient.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


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


def _forward(vectors: Tensor) -> Tensor:
    halves = as_real(torch.fft.rfft(vectors, norm="ortho"))
    return halves.mul_(_scales(vectors.shape[-1], vectors))


def _backward(spectra: Tensor, size: int) -> Tensor:
    halves = spectra.contiguous() * _scales(size, spectra).reciprocal_()
    return torch.fft.irfft(as_complex(halves), size, norm="ortho")


class _Spectrum(Function):
    @staticmethod
    def forward(ctx: Any, vectors: Tensor) -> Tensor:
        ctx.size = vectors.shape[-1]
        return _forward(vectors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return signal(gradient, ctx.size)


class _Signal(Function):
    @staticmethod
    def forward(ctx: Any, spectra: Tensor, size: int) -> Tensor:
        return _backward(spectra, size)

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
