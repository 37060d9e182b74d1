"""Biaffine scores of pairs of vectors, as in graph-based dependency parsers, over any structure.

Formula:        s_l(x, y) = xᵀ W_l y + u_l·x + v_l·y + c_l, l = 1 … labels
Parameters:     labels · (count(W) + d·[u] + d·[v] + [c])
Source:         Dozat and Manning, "Deep biaffine attention for neural dependency parsing", ICLR 2017.
                Symmetric and circulant W: Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers
                with symmetric and circulant weight matrices", PACLIC 2018, equations 6, 7, 10 and 11

One side is mapped first: by a product with W, element by element for a diagonal W, or by its spectrum for a circulant
W. All pairs are then scored by one batched product.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.kernels.bilinear import bilinear_forms
from phmrun.layers.structure import BilinearForm, build_structure, build_weight


class Biaffine(nn.Module):
    """Biaffine scores of all pairs, per label.

    s_l(x, y) = xᵀ W_l y + u_l·x + v_l·y + c_l.

    Args:
        in_features: Size of x and of y.
        out_features: Number of labels, at least 1.
        bias_x: Append a 1 to x, which yields the term v·y.
        bias_y: Append a 1 to y, which yields the term u·x.
        constant: Add c if both other terms exist; Matsuno et al. omit it for a structured W.
        structure: Name of the structure of each W.
        **options: Options of the structure.

    Raises:
        PhmrunError: No labels, unknown structure or option, or sizes that do not fit.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int = 1,
        bias_x: bool = True,
        bias_y: bool = True,
        *,
        constant: bool = True,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        if out_features < 1:
            raise PhmrunError(f"a biaffine form needs at least one label, not {out_features}")
        self.in_features, self.out_features = in_features, out_features
        self.maps = nn.ModuleList(
            build_structure(structure, in_features, in_features, **options) for _ in range(out_features)
        )
        self.u = nn.Parameter(torch.empty(out_features, in_features)) if bias_y else None
        self.v = nn.Parameter(torch.empty(out_features, in_features)) if bias_x else None
        self.c = nn.Parameter(torch.empty(out_features)) if bias_x and bias_y and constant else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw each W with standard deviation 1 / in_features, in place.

        Set u, v and c to zero. Inputs of unit variance then have scores of unit variance.
        """
        for structure in self.maps:
            structure.reset_parameters(1 / self.in_features)  # type: ignore[operator]
        for parameter in (self.u, self.v, self.c):
            if parameter is not None:
                nn.init.zeros_(parameter)

    @property
    def form(self) -> BilinearForm | None:
        """Bilinear form of the structure, with which W is never built; None if it has none."""
        return self.maps[0].bilinear  # type: ignore[return-value]

    @property
    def weight(self) -> Tensor:
        """Dense matrices W ``[labels, in_features, in_features]``."""
        return torch.stack([build_weight(structure) for structure in self.maps])  # type: ignore[arg-type]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of all pairs of x and y.

        x is ``[batch, n, in_features]``, y ``[batch, m, in_features]``. W is built only if its structure has no
        bilinear form.

        Returns:
            ``[batch, n, m]`` for one label, ``[batch, labels, n, m]`` for several.
        """
        batch, m, labels = y.shape[0], y.shape[1], self.out_features
        # [batch, n, size] and [batch, m, labels, size]; their inner products are the scores without v·y + c
        if self.form is not None:
            left, right = self.form.sides(list(self.maps), x, y, self.u)
        else:
            mapped = F.linear(y, self.weight.flatten(0, 1), None if self.u is None else self.u.flatten())
            left, right = x, mapped.unflatten(-1, (labels, -1))
        rows = right.flatten(1, 2)
        if self.v is None:
            scores = torch.bmm(rows, left.transpose(1, 2))
        else:
            terms = F.linear(y, self.v, self.c).reshape(batch, m * labels, 1)
            scores = torch.baddbmm(terms, rows, left.transpose(1, 2))
        scores = scores.view(batch, m, labels, -1).permute(0, 2, 3, 1)  # [batch, labels, n, m]
        return scores.squeeze(1) if labels == 1 else scores

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the scores of x and y at equal positions, all terms included.

        Examples are dependents and their heads. W is built only if its structure has no bilinear form.

        Args:
            x: ``[…, in_features]``.
            y: ``[…, in_features]``.

        Returns:
            ``[…, labels]``.
        """
        if self.form is not None:
            scores = self.form.pairs(list(self.maps), x, y)
        else:
            left, right = (vectors.reshape(-1, self.in_features) for vectors in (x, y))
            scores = bilinear_forms(self.weight, left, right).view(*x.shape[:-1], self.out_features)
        if self.u is not None:
            scores = scores + F.linear(x, self.u)
        return scores if self.v is None else scores + F.linear(y, self.v, self.c)

    def plain(self) -> "Biaffine":
        """Return an equivalent in evaluation mode, with copies of the dense matrices.

        The copies get no gradient. The terms u, v and c are shared, and keep theirs.
        """
        with torch.device("meta"):
            plain = Biaffine(self.in_features, self.out_features)
        for structure, weight in zip(plain.maps, self.weight, strict=True):
            structure.matrix = nn.Parameter(weight.detach().clone(), requires_grad=False)
        plain.u, plain.v, plain.c = self.u, self.v, self.c
        return plain.eval()
