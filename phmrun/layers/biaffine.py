"""Scores of pairs of vectors: the biaffine form of graph-based dependency parsers, over any structure.

Formula:        s_l(x, y) = xᵀ W_l y + u_l·x + v_l·y + c_l, l = 1 … labels
Parameters:     labels · (count(W) + d·[u] + d·[v] + [c])
Source:         Dozat and Manning, "Deep biaffine attention for neural dependency parsing", ICLR 2017; symmetric and
                circulant W: Matsuno et al., "Reduction of parameter redundancy in biaffine classifiers with symmetric
                and circulant weight matrices", PACLIC 2018, equations 6, 7, 10 and 11

For all pairs of n and m vectors one side is mapped first, by a product with W or in a way that its structure has of its
own (element by element where W is diagonal, between spectra where it is circulant), and then compared with the other in
one product.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.layers.linear import on_device
from phmrun.layers.structure import BilinearForm, build_structure, build_weight


class Biaffine(nn.Module):
    """Scores of every pair of an x and a y, per label.

    Args:
        in_features: Size of x and of y.
        out_features: Number of labels.
        bias_x: Whether x is followed by a 1, which gives the term v·y.
        bias_y: Whether y is followed by a 1, which gives the term u·x.
        constant: Whether, with both terms, there is the constant c; Matsuno et al. have none beside a structured W.
        structure: Of each W; ``**options`` are its options.

    Raises:
        PhmrunError: Unknown structure or option, or sizes that do not fit.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int = 1,
        bias_x: bool = True,
        bias_y: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        constant: bool = True,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        if out_features < 1:
            raise PhmrunError(f"a biaffine form needs at least one label, not {out_features}")
        self.in_features, self.out_features = in_features, out_features
        with on_device(device):
            self.maps = nn.ModuleList(
                build_structure(structure, in_features, in_features, **options) for _ in range(out_features)
            )
            self.u = nn.Parameter(torch.empty(out_features, in_features)) if bias_y else None
            self.v = nn.Parameter(torch.empty(out_features, in_features)) if bias_x else None
            self.c = nn.Parameter(torch.empty(out_features)) if bias_x and bias_y and constant else None
        if dtype is not None:
            self.to(dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """W such that vectors of unit variance score with unit variance; all else zero."""
        for structure in self.maps:
            structure.reset_parameters(1 / self.in_features)  # type: ignore[operator]
        for parameter in (self.u, self.v, self.c):
            if parameter is not None:
                nn.init.zeros_(parameter)

    @property
    def factored(self) -> bool:
        """Whether W is never built, since its numbers do the same in fewer steps, in inference too."""
        return self._form is not None

    @property
    def _form(self) -> BilinearForm | None:
        """How the structure compares vectors without W, if it has such a way."""
        form: BilinearForm | None = self.maps[0].bilinear  # type: ignore[assignment]
        return form

    @property
    def weight(self) -> Tensor:
        """The dense matrices W ``[labels, in_features, in_features]``."""
        return torch.stack([build_weight(structure) for structure in self.maps])  # type: ignore[arg-type]

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores of all pairs of ``x [batch, n, in_features]`` and ``y [batch, m, in_features]``.

        ``[batch, n, m]`` for one label, ``[batch, labels, n, m]`` for several.
        """
        batch, m, labels = y.shape[0], y.shape[1], self.out_features
        # [batch, n, size] and [batch, m, labels, size], whose inner products are the scores but for v·y + c
        if self._form is not None:
            left, right = self._form.sides(list(self.maps), x, y, self.u)
        else:
            mapped = F.linear(y, self.weight.flatten(0, 1), None if self.u is None else self.u.flatten())
            left, right = x, mapped.unflatten(-1, (labels, -1))
        rows = right.flatten(1, 2)
        if self.v is None:
            scores = torch.bmm(rows, left.transpose(1, 2))
        else:
            scores = torch.baddbmm(self._of_y(y).reshape(batch, m * labels, 1), rows, left.transpose(1, 2))
        scores = scores.view(batch, m, labels, -1).permute(0, 2, 3, 1)  # [batch, labels, n, m]
        return scores.squeeze(1) if labels == 1 else scores

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Scores of x with y of the same position only, such as dependents with their heads.

        Twice ``[…, in_features] -> […, labels]``.
        """
        if self._form is not None:
            scores = self._form.pairs(list(self.maps), x, y)
        else:
            mapped = F.linear(y, self.weight.flatten(0, 1)).unflatten(-1, (self.out_features, -1))
            scores = (mapped @ x.unsqueeze(-1)).squeeze(-1)
        if self.u is not None:
            scores = scores + F.linear(x, self.u)
        return scores if self.v is None else scores + self._of_y(y)

    def plain(self) -> "Biaffine":
        """The same scores from dense matrices."""
        with torch.device("meta"):
            plain = Biaffine(self.in_features, self.out_features)
        for structure, weight in zip(plain.maps, self.weight, strict=True):
            structure.matrix = nn.Parameter(weight.detach().clone(), requires_grad=False)
        plain.u, plain.v, plain.c = self.u, self.v, self.c
        return plain.eval()

    def _of_y(self, y: Tensor) -> Tensor:
        """v·y + c, ``[…, m, in_features] -> […, m, labels]``."""
        return F.linear(y, self.v, self.c)  # type: ignore[arg-type]

    def extra_repr(self) -> str:
        """Sizes and terms."""
        terms = f"bias_x={self.v is not None}, bias_y={self.u is not None}, constant={self.c is not None}"
        return f"in_features={self.in_features}, out_features={self.out_features}, {terms}"
