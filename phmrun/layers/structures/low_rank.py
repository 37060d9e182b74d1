"""Low rank: product of two narrow matrices.

Formula:        W = U V, U [k, r], V [r, d]
Parameters:     r·(k + d); with ``budget`` b, r = ⌊b·k·d / (k + d)⌋, at least 1
Initialization: Var(W) = r·Var(U)·Var(V). Both factors have the standard deviation √(std / √r), so that their relative
                learning speed is the same
Source:         the "factorized" baseline of Zhang et al. 2021; Shapeshifter (2021), section 5.3

W is applied as two narrow products, in training too: r·(k + d) multiplications per token instead of k·d.
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.fitting import best_low_rank
from phmrun.layers.structure import Application, Product, Structure, register
from phmrun.shares import check_budget, check_range, share_of


@register("low-rank")
class LowRank(Structure):
    """Product of two narrow matrices, applied in sequence."""

    formula = "W = U V"
    count_formula = "r·(k + d)"
    constraint = "r ≤ min(k, d)"
    source = "Shapeshifter 2021, section 5.3"
    examples = ({"rank": 4}, {"budget": "1/3"})
    application: Application = "factored"

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        rank: Annotated[int, "Rank r of W; 0: as large as the budget allows"] = 0,
        budget: Annotated[float | str, "Share of the dense parameters that r is chosen for; a fraction or 1/4"] = "1/4",
    ) -> None:
        super().__init__(out_features, in_features, rank=rank, budget=budget)
        share = share_of(budget) or 1
        self.rank = rank or max(1, int(share * out_features * in_features / (out_features + in_features)))
        self.u = nn.Parameter(torch.empty(out_features, self.rank))
        self.v = nn.Parameter(torch.empty(self.rank, in_features))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, rank: int, budget: float | str) -> str | None:  # type: ignore[override]
        """Return why ``rank`` or ``budget`` is out of range, else None.

        The rank is 0 to min(k, d), the budget above 0 and at most 1.
        """
        most = min(out_features, in_features)
        return check_range("rank", rank, most, "for the budget's") or check_budget(budget)

    def reset_parameters(self, std: float) -> None:
        """Draw U and V uniformly with standard deviation √(std / √r), in place."""
        bound = (3 * std / self.rank**0.5) ** 0.5
        for factor in (self.u, self.v):
            nn.init.uniform_(factor, -bound, bound)

    @torch.no_grad()
    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit in place by truncated singular value decomposition.

        With a covariance, the matrix is whitened first.
        """
        u, v = best_low_rank(weight, self.rank, covariance)
        self.u.copy_(u)
        self.v.copy_(v)

    def materialize(self) -> Tensor:
        """Return U V."""
        return self.u @ self.v

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of U times V, without building W."""
        return F.embedding(index, self.u) @ self.v

    def product(self) -> Product:
        """Return the products with V, then U."""
        return apply_low_rank, (self.u, self.v), {}

    def reduced(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return V x ``[tokens, r]`` and U ``[k, r]``."""
        return F.linear(inputs, self.v), self.u

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of V and U.

        V: (r, d), U: (k, r).
        """
        return {"v": (self.rank, self.in_features), "u": (self.out_features, self.rank)}

    def token_multiplications(self) -> int:
        """Return r·(k + d)."""
        return self.u.numel() + self.v.numel()


def apply_low_rank(inputs: Tensor, u: Tensor, v: Tensor) -> Tensor:
    """Return U (V x) for U ``[k, r]`` and V ``[r, d]``.

    Shapes: ``[tokens, d] -> [tokens, k]``.
    """
    return F.linear(F.linear(inputs, v), u)
