"""Symmetric: a symmetric matrix in its eigenbasis, where it is diagonal.

Formula:        W = diag(w)
Parameters:     d
Initialization: w has √d times the dense layer's standard deviation; W is zero off the diagonal. The mean square over
                all of W, and the variance of W x, are then those of the dense layer. With ``variant="released"``, w
                is a random direction, and its length is d times the dense layer's standard deviation: 1 in classifiers
Source:         Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers with symmetric and circulant
                weight matrices", PACLIC 2018, section 3.1

Intended for bilinear forms xᵀ W y with W = Q diag(w) Qᵀ. The layers that compute x and y learn Qᵀ within their own
matrices, and the form is the triple inner product Σ_i w_i x_i y_i. A linear map with this structure scales each feature
separately.

The variants have the same parameters. The released code of Matsuno et al. (TomokiMatsuno/PACLIC32, ``my_linalg.py:32``)
starts from a vector of length 1, unless its caller, which is not released, passes another start. Networks that start
as Parser-v2 keep it, and set w to 0 with ``variant="text"``.
"""

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.structure import Application, Product, Structure, register


class SymmetricForm:
    """Bilinear form xᵀ diag(w) y, computed element by element."""

    def sides(self, maps: Sequence["Symmetric"], x: Tensor, y: Tensor, shift: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return x and w_l ∘ y + u_l for each label l.

        Without ``shift``, u is left out. See :meth:`phmrun.layers.structure.BilinearForm.sides`.
        """
        vectors, diagonals = y.unsqueeze(-2), torch.stack([structure.diagonal for structure in maps])
        return x, vectors * diagonals if shift is None else torch.addcmul(shift, vectors, diagonals)

    def pairs(self, maps: Sequence["Symmetric"], x: Tensor, y: Tensor) -> Tensor:
        """Return Σ_i w_i x_i y_i for each label, of vectors at equal positions.

        Shapes: ``[…, d]`` twice ``-> […, labels]``. See :meth:`phmrun.layers.structure.BilinearForm.pairs`.
        """
        return F.linear(x * y, torch.stack([structure.diagonal for structure in maps]))


@register("symmetric")
class Symmetric(Structure):
    """Symmetric matrix in its eigenbasis, for bilinear forms; square only."""

    formula = "W = diag(w)"
    count_formula = "d"
    constraint = "k = d"
    source = "Matsuno et al. 2018, section 3.1"
    examples = ({}, {"variant": "released"})
    application: Application = "factored"
    linear = True
    square = True
    bilinear: ClassVar[SymmetricForm] = SymmetricForm()

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        variant: Annotated[
            Literal["text", "released"], "Start of w: 'text': uniform numbers; 'released': a random direction"
        ] = "text",
    ) -> None:
        super().__init__(out_features, in_features, variant=variant)
        self.as_released = variant == "released"
        self.diagonal = nn.Parameter(torch.empty(in_features))

    def reset_parameters(self, std: float) -> None:
        """Draw w uniformly with standard deviation √d · ``std``, in place.

        The released variant draws a direction of length d · ``std``.
        """
        if self.as_released:
            with torch.no_grad():
                self.diagonal.normal_().mul_(self.in_features * std / self.diagonal.norm())
            return
        bound = math.sqrt(3 * self.in_features) * std
        nn.init.uniform_(self.diagonal, -bound, bound)

    def materialize(self) -> Tensor:
        """Return diag(w)."""
        return torch.diag(self.diagonal)

    def product(self) -> Product:
        """Return w ∘ x."""
        return torch.mul, (self.diagonal,), {}

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (1, 1) of w: each output reads a single input."""
        return {"diagonal": (1, 1)}

    def token_multiplications(self) -> int:
        """Return d."""
        return self.in_features
