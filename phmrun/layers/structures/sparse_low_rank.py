"""Sparse plus low rank: product of two narrow matrices plus a sparse matrix.

Formula:        W = U V + S, U [k, r], V [r, d]; S has m entries per row, at fixed random positions
Parameters:     r·(k + d) + k·m with m = density·d; ``rank`` 0: the largest r within the budget, at least 1
Initialization: the entries of S have the standard deviation of a dense W; Var(U V) = (1 - m/d)·std², so that the mean
                square over all of W is that of a dense W
Source:         Han et al., "SLTrain: a sparse plus low-rank approach for parameter and memory efficient pretraining",
                NeurIPS 2024 (density 0.03); here every row has the same number of entries

The positions depend on the sizes, the density and ``seed`` only, and are not stored in checkpoints. W is built in
training at r multiplications per entry, because sparse products are slower than dense ones.
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.fitting import best_low_rank
from phmrun.layers.structure import Structure, draw_uniform, register
from phmrun.shares import check_budget, check_range, share_of

ROUNDS = 10
"""Number of turns in which U V and S are fitted before all are."""
AT_ONCE = 1 << 22
"""Number of random numbers drawn at a time for the positions."""


@register("sparse-low-rank")
class SparseLowRank(Structure):
    """Product of two narrow matrices plus a sparse matrix with fixed random positions."""

    formula = "W = U V + S, S at random places"
    count_formula = "r·(k + d) + k·m, m = density·d"
    constraint = "r ≤ min(k, d)"
    source = "Han et al. 2024"
    examples = ({"rank": 3},)

    places: Tensor

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        rank: Annotated[int, "Rank r of U V; 0: as large as the budget allows"] = 0,
        density: Annotated[float, "Share of the entries of W that have a number in S"] = 0.03,
        budget: Annotated[float | str, "Share of the dense parameters that r is chosen for, S included"] = "1/4",
        seed: Annotated[int, "Random seed of the positions of S"] = 0,
    ) -> None:
        super().__init__(out_features, in_features, rank=rank, density=density, budget=budget, seed=seed)
        per_row = max(1, round(density * in_features))  # m
        left = int((share_of(budget) or 1) * out_features * in_features) - out_features * per_row
        self.rank = rank or max(1, min(left // (out_features + in_features), out_features, in_features))
        self.u = nn.Parameter(torch.empty(out_features, self.rank))
        self.v = nn.Parameter(torch.empty(self.rank, in_features))
        self.s = nn.Parameter(torch.empty(out_features, per_row))
        if self.s.is_meta:
            places = torch.empty(out_features, per_row, dtype=torch.long, device="meta")
        else:
            places = draw_places(out_features, in_features, per_row, seed).to(self.s.device)
        self.register_buffer("places", places, persistent=False)

    @classmethod
    def check(  # type: ignore[override]
        cls, out_features: int, in_features: int, *, rank: int, density: float, budget: float | str, **_: object
    ) -> str | None:
        """Return why ``rank``, ``density`` or ``budget`` is invalid, else None.

        The rank is 0 to min(k, d), the density above 0 and such that a row has zeros, the budget a share.
        """
        fault = check_range("rank", rank, min(out_features, in_features), "for the budget's")
        if not density > 0 or round(density * in_features) >= max(in_features, 2):
            fault = fault or f"density = {density}; valid density: above 0, and below {1 - 0.5 / in_features:.3g}"
        return fault or check_budget(budget)

    def reset_parameters(self, std: float) -> None:
        """Draw S, U and V uniformly, in place.

        S has standard deviation ``std``; U V gets the rest of W's variance.
        """
        share = self.s.shape[1] / self.in_features
        draw_uniform(self.s, std)
        bound = (3 * std * (1 - share) ** 0.5 / self.rank**0.5) ** 0.5
        for factor in (self.u, self.v):
            nn.init.uniform_(factor, -bound, bound)

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit in place: U V and S in turn, then all by gradients.

        With a covariance, the error of the outputs is minimized.
        """
        with torch.no_grad():
            self.s.zero_()
            for _ in range(ROUNDS):
                sparse = torch.zeros_like(weight).scatter_add(1, self.places, self.s.to(weight.dtype))
                u, v = best_low_rank(weight - sparse, self.rank, covariance)
                self.u.copy_(u)
                self.v.copy_(v)
                self.s.copy_((weight - (u @ v).to(weight.dtype)).gather(1, self.places))
        super().fit(weight, covariance)

    def materialize(self) -> Tensor:
        """Return U V + S."""
        return (self.u @ self.v).scatter_add(1, self.places, self.s)

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it: rows of U V plus rows of S."""
        places = self.places.index_select(0, index)
        return (F.embedding(index, self.u) @ self.v).scatter_add(1, places, F.embedding(index, self.s))

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of V, U and S.

        They are (r, d), (k, r) and (k, m).
        """
        k, d, r = self.out_features, self.in_features, self.rank
        return {"v": (r, d), "u": (k, r), "s": (k, self.s.shape[1])}

    def token_multiplications(self) -> int:
        """Return the number of entries of U, V and S, that is r·(k + d) + k·m."""
        return self.u.numel() + self.v.numel() + self.s.numel()

    def build_multiplications(self) -> int:
        """Return r·k·d."""
        return self.rank * self.out_features * self.in_features


def draw_places(rows: int, columns: int, per_row: int, seed: int) -> Tensor:
    """Return ``per_row`` different random columns for each row.

    They depend on the arguments only.

    Returns:
        Column numbers ``[rows, per_row]``, in ascending order in each row.
    """
    generator = torch.Generator().manual_seed(seed)
    step, places = max(1, AT_ONCE // columns), []
    for start in range(0, rows, step):
        drawn = torch.rand(min(step, rows - start), columns, generator=generator, device="cpu")
        places.append(drawn.topk(per_row, dim=1).indices.sort(dim=1).values)
    return torch.cat(places)
