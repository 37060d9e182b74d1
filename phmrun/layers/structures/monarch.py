"""Monarch and block tensor train: two block-diagonal matrices and a permutation.

Formula:        block (i, j) of W, [k/b, d/b], is L_ij R_ij with L_ij [k/b, r] and R_ij [r, d/b], i, j = 1…b
Parameters:     r·b·(k + d). ``rank`` 0: the largest r within the budget
Initialization: Var(R) = min(1, b·r / (d/b)) / (d/b), as Qiu et al. draw a core. Var(L) follows from
                Var(W) = r·Var(L)·Var(R), the variance of a dense W
Source:         Dao et al., "Monarch: Expressive structured matrices for efficient and accurate training", ICML 2022
                (r·b² = min(k, d)).
                Block tensor train, r > 1: Qiu et al., "Compute better spent: replacing dense layers with structured
                matrices", ICML 2024, where b = √d

R maps every block of inputs to r numbers for each block of outputs; L maps the b·r numbers of a block of outputs to its
entries. This takes r·b·(k + d) multiplications per vector, one for each parameter. If b does not divide a size, the
last block is padded and W is cut from the larger matrix.
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.batched import batched_product
from phmrun.layers.block_matrix import block_size, choose_blocks, from_blocks, into_blocks
from phmrun.layers.fitting import best_low_rank_blocks
from phmrun.layers.structure import Application, Product, Structure, draw_uniform, register
from phmrun.shares import check_budget, check_range, share_of


@register("monarch")
class Monarch(Structure):
    """Two block-diagonal matrices and a permutation: blocks have rank r, W can have full rank."""

    formula = "block (i, j) of W = L_ij R_ij, rank r"
    count_formula = "r·b·(k + d)"
    constraint = "none; padded where b does not divide k and d"
    source = "Dao et al. 2022; Qiu et al. 2024"
    examples = ({"blocks": 4, "rank": 2},)
    application: Application = "factored"
    pays_from: float = 2 * 2**20

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        blocks: Annotated[int, "Blocks b each way; 0: enough for full rank within the budget"] = 0,
        rank: Annotated[int, "Rank r of each block; 0: as large as the budget allows"] = 0,
        budget: Annotated[float | str, "Share of the dense parameters that b and r are chosen for"] = "1/4",
    ) -> None:
        super().__init__(out_features, in_features, blocks=blocks, rank=rank, budget=budget)
        self.blocks = blocks or choose_blocks(out_features, in_features, budget)
        self.rows_of_block = block_size(out_features, self.blocks)
        columns = block_size(in_features, self.blocks)
        numbers = self.blocks**2 * (self.rows_of_block + columns)  # per unit of rank
        share = share_of(budget) or 1
        self.rank = rank or max(1, min(int(share * out_features * in_features / numbers), self.rows_of_block, columns))
        self.left = nn.Parameter(torch.empty(self.blocks, self.rows_of_block, self.blocks * self.rank))
        self.right = nn.Parameter(torch.empty(self.blocks, self.blocks * self.rank, columns))

    @classmethod
    def check(  # type: ignore[override]
        cls, out_features: int, in_features: int, *, blocks: int, rank: int, budget: float | str
    ) -> str | None:
        """Return why ``blocks``, ``rank`` or ``budget`` is out of range, else None.

        Valid are 0 to min(k, d) blocks, a rank of 0 to the smaller side of a block, and a budget in (0, 1].
        """
        if fault := check_range("blocks", blocks, min(out_features, in_features), "to have them chosen"):
            return fault
        chosen = blocks or choose_blocks(out_features, in_features, budget)
        most = min(block_size(out_features, chosen), block_size(in_features, chosen))
        if not 0 <= rank <= most:
            return f"rank = {rank} with {chosen} blocks each way; valid rank: 1 to {most}, or 0 for the budget's"
        return check_budget(budget)

    def reset_parameters(self, std: float) -> None:
        """Draw R and L uniformly, in place.

        R preserves its input's variance, L gives W standard deviation ``std``.
        """
        between, columns = self.right.shape[1:]
        of_right = (min(1.0, between / columns) / columns) ** 0.5
        of_left = std / (self.rank**0.5 * of_right)
        for factor, deviation in ((self.left, of_left), (self.right, of_right)):
            draw_uniform(factor, deviation)

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit each block in place by truncated singular value decomposition.

        With a covariance, blocks are whitened and columns of blocks fitted in turn until the error settles; then all
        parameters are refined by gradients.
        """
        with torch.no_grad():
            left, right = best_low_rank_blocks(weight, self.blocks, self.rank, covariance)
            self.left.copy_(left.transpose(1, 2).flatten(2))
            self.right.copy_(right.transpose(0, 1).flatten(1, 2))
        if covariance is not None:
            super().fit(weight, covariance)

    def materialize(self) -> Tensor:
        """Return W: the products of all blocks as one batch, then one permutation.

        Padding is cut.
        """
        left, right, b, r = self.left, self.right, self.blocks, self.rank
        of_left = left.view(b, -1, b, r).transpose(1, 2)  # [i, j, k/b, r]
        of_right = right.view(b, b, r, -1).transpose(0, 1)  # [i, j, r, d/b]
        matrix = (of_left @ of_right).transpose(1, 2).reshape(b * self.rows_of_block, -1)
        return matrix[: self.out_features, : self.in_features]

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it.

        They are rows of L, padded with zeros outside their block, times R.
        """
        rows = F.embedding(index, self.left.flatten(0, 1)).view(-1, self.blocks, self.rank)  # [tokens, j, r]
        block = F.one_hot(index // self.rows_of_block, self.blocks).to(rows.dtype)
        spread = torch.einsum("ti,tjr->jtir", block, rows).flatten(2)  # [j, tokens, (i, r)]
        return torch.bmm(spread, self.right).transpose(0, 1).flatten(1)[:, : self.in_features]

    def product(self) -> Product:
        """Return two batched products, with R and L.

        A permutation is in between.
        """
        return apply_monarch, (self.left, self.right), {"out_features": self.out_features}

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of R and L.

        R: (b·r, d/b), it reads a block of inputs. L: (k/b, b·r), it reads what all blocks send to a block of outputs.
        """
        _, between, columns = self.right.shape
        return {"right": (between, columns), "left": (self.rows_of_block, between)}

    def token_multiplications(self) -> int:
        """Return the number of entries of L and R."""
        return self.left.numel() + self.right.numel()


def apply_monarch(inputs: Tensor, left: Tensor, right: Tensor, *, out_features: int) -> Tensor:
    """Return W x for ``inputs [tokens, d]``, by the factors.

    L is ``[b, k/b, b·r]``, R ``[b, b·r, d/b]``.

    Returns:
        ``[tokens, out_features]``.
    """
    blocks, between, columns = right.shape
    tokens = inputs.shape[0]
    sent = batched_product(right, into_blocks(inputs, blocks, columns))  # [j, (i, r), tokens]
    received = sent.view(blocks, blocks, between // blocks, tokens).transpose(0, 1).reshape(blocks, between, tokens)
    return from_blocks(batched_product(left, received, joined=True), out_features)
