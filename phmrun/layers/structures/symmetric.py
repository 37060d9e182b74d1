"""Symmetric: a symmetric matrix in the basis of its eigenvectors, where it is diagonal.

Formula:        W = diag(w)
Parameters:     d
Initialisation: Off the diagonal, W is zero. Its d numbers have √d times the dense layer's standard deviation, so that
                the mean square over all of W, and with it the variance of W x, is the dense layer's
Source:         Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers with symmetric and circulant
                weight matrices", PACLIC 2018, section 3.1

Made for bilinear forms xᵀ W y: where W = Q diag(w) Qᵀ, the layers that make x and y learn Qᵀ along with their own maps,
and the form is the triple inner product Σ_i w_i x_i y_i. As a linear map it scales each feature by itself.
"""

import math
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.fitting import steadied
from phmrun.layers.inference import PackedFactors
from phmrun.layers.structure import Application, Structure, register


class SymmetricForm:
    """xᵀ diag(w) y, element by element."""

    def sides(self, maps: Sequence["Symmetric"], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """As :meth:`phmrun.layers.structure.BilinearForm.sides`."""
        vectors, diagonals = y.unsqueeze(-2), torch.stack([structure.diagonal for structure in maps])
        return x, vectors * diagonals if shift is None else torch.addcmul(shift, vectors, diagonals)

    def pairs(self, maps: Sequence["Symmetric"], x: Tensor, y: Tensor) -> Tensor:
        """As :meth:`phmrun.layers.structure.BilinearForm.pairs`."""
        return F.linear(x * y, torch.stack([structure.diagonal for structure in maps]))


@register("symmetric")
class Symmetric(Structure):
    """A symmetric matrix, diagonal in a basis that other layers learn: for bilinear forms; square only."""

    formula = "W = diag(w)"
    count_formula = "d"
    constraint = "k = d"
    source = "Matsuno et al. 2018, section 3.1"
    application: Application = "factored"
    square = True
    bilinear: ClassVar[SymmetricForm] = SymmetricForm()

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__(out_features, in_features)
        self.diagonal = nn.Parameter(torch.empty(in_features))

    def reset_parameters(self, std: float) -> None:
        """Uniform with standard deviation √d · ``std``."""
        bound = math.sqrt(3 * self.in_features) * std
        nn.init.uniform_(self.diagonal, -bound, bound)

    @torch.no_grad()
    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """The diagonal; with a covariance, each row's regression on its own input."""
        if covariance is None:
            self.diagonal.copy_(weight.diagonal())
            return
        steady = steadied(covariance)
        self.diagonal.copy_((weight.double() @ steady).diagonal() / steady.diagonal())

    def materialize(self) -> Tensor:
        """The diagonal matrix."""
        return torch.diag(self.diagonal)

    def rows(self, index: Tensor) -> Tensor:
        """Number i at place i."""
        return F.one_hot(index, self.in_features) * self.diagonal

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """Element by element."""
        return inputs * self.diagonal

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """One number each."""
        return {"diagonal": (1, 1)}

    def token_multiplications(self) -> int:
        """One per feature."""
        return self.in_features

    def packed(self) -> nn.Module:
        """The diagonal alone."""
        return PackedFactors(torch.mul, self.diagonal)
