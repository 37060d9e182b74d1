"""BLAST: blocks with shared factors and one diagonal coupling matrix each.

Formula:        block (i, j) of W, [k/b, d/b], is B_i diag(D_ij) C_j with B_i [k/b, r], C_j [r, d/b], D_ij [r]
Parameters:     r·(k + d + b²). ``rank`` 0: the largest r within the budget
Initialization: Var(W) = r·Var(B)·E[D²]·Var(C). D is uniform in (0, 2) with mean 1, so that blocks of a row or column
                are similar at first; Var(C) = 1 / (d/b) preserves the variance of its input; Var(B) follows
Source:         Lee et al., "BLAST: Block-level adaptive structured matrices for efficient deep neural network
                inference", NeurIPS 2024

Special cases: low rank (every D_ij = 1), block-diagonal matrices (D_ij = 0 for i ≠ j) and Monarch (the D_ij select
disjoint ranks). If b does not divide a size, the last block is padded and W is cut from the larger matrix.
"""

from typing import Annotated

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.batched import batched_product
from phmrun.layers.block_matrix import block_size, choose_blocks, from_blocks, into_blocks
from phmrun.layers.fitting import best_coupled_blocks
from phmrun.layers.structure import Application, Product, Structure, draw_uniform, register
from phmrun.shares import check_budget, check_range, share_of


@register("blast")
class Blast(Structure):
    """Blocks B_i diag(D_ij) C_j: rows of blocks share B, columns of blocks share C."""

    formula = "block (i, j) of W = B_i diag(D_ij) C_j"
    count_formula = "r·(k + d + b²)"
    constraint = "none; padded where b does not divide k and d"
    source = "Lee et al. 2024"
    examples = ({"blocks": 4, "rank": 8},)
    application: Application = "factored"
    pays_from: float = 4 * 2**20

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        blocks: Annotated[int, "Blocks b each way; 0: as many as for 'monarch'"] = 0,
        rank: Annotated[int, "Numbers r between the factors; 0: as large as the budget allows"] = 0,
        budget: Annotated[float | str, "Share of the dense parameters that b and r are chosen for"] = "1/4",
    ) -> None:
        super().__init__(out_features, in_features, blocks=blocks, rank=rank, budget=budget)
        self.blocks = blocks or choose_blocks(out_features, in_features, budget)
        self.rows_of_block, columns = (block_size(size, self.blocks) for size in (out_features, in_features))
        numbers = self.blocks * (self.rows_of_block + columns + self.blocks)  # per unit of rank
        self.rank = rank or max(1, int((share_of(budget) or 1) * out_features * in_features / numbers))
        self.b = nn.Parameter(torch.empty(self.blocks, self.rows_of_block, self.rank))
        self.d = nn.Parameter(torch.empty(self.rank, self.blocks, self.blocks))
        self.c = nn.Parameter(torch.empty(self.blocks, self.rank, columns))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, blocks: int, rank: int, budget: float | str) -> str | None:  # type: ignore[override]
        """Return why ``blocks``, ``rank`` or ``budget`` is out of range, else None.

        Valid are 0 to min(k, d) blocks, a rank of at least 0, and a budget above 0 and up to 1.
        """
        if fault := check_range("blocks", blocks, min(out_features, in_features), "to have them chosen"):
            return fault
        if rank < 0:
            return f"rank = {rank}; valid rank: 1 or more, or 0 for the budget's"
        return check_budget(budget)

    def reset_parameters(self, std: float) -> None:
        """Draw B, C and D in place, all uniformly.

        D from U(0, 2), C to preserve its input's variance, B so that W has standard deviation ``std``.
        """
        of_c = self.c.shape[2] ** -0.5
        of_b = std / (of_c * (4 / 3 * self.rank) ** 0.5)
        nn.init.uniform_(self.d, 0.0, 2.0)
        for factor, deviation in ((self.b, of_b), (self.c, of_c)):
            draw_uniform(factor, deviation)

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit in place: alternating least squares from the best matrix of rank r, then gradients.

        With a covariance, the error of the outputs is minimized.
        """
        with torch.no_grad():
            best = best_coupled_blocks(weight, self.b, self.d, self.c, covariance)
            for factor, value in zip((self.b, self.d, self.c), best, strict=True):
                factor.copy_(value)
        super().fit(weight, covariance)

    def materialize(self) -> Tensor:
        """Return W: each row of blocks is B_i times all diag(D_ij) C_j side by side.

        Padding is cut.
        """
        coupled = self.d.permute(1, 0, 2).unsqueeze(-1) * self.c.transpose(0, 1)  # [i, r, j, d/b]
        matrix = torch.bmm(self.b, coupled.flatten(2)).flatten(0, 1)
        return matrix[: self.out_features, : self.in_features]

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it.

        Row p of block row i is row p of B_i, times each diag(D_ij) C_j.
        """
        rows = F.embedding(index, self.b.flatten(0, 1))  # [tokens, r]
        couplings = F.embedding(index // self.rows_of_block, self.d.permute(1, 2, 0).flatten(1))
        coupled = couplings.view(-1, self.blocks, self.rank) * rows.unsqueeze(1)  # [tokens, j, r]
        return torch.bmm(coupled.transpose(0, 1), self.c).transpose(0, 1).flatten(1)[:, : self.in_features]

    def product(self) -> Product:
        """Return three batched products: with C, D and B."""
        return apply_blast, (self.b, self.d, self.c), {"out_features": self.out_features}

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of C, D and B.

        C: (r, d/b), it reads a block of inputs. D: (b, b), one rank of all blocks. B: (k/b, r), the ranks of a block.
        """
        sizes = {"c": (self.rank, self.c.shape[2]), "d": (self.blocks, self.blocks)}
        return {**sizes, "b": (self.rows_of_block, self.rank)}

    def token_multiplications(self) -> int:
        """Return the number of entries of B, C and D."""
        return self.b.numel() + self.c.numel() + self.d.numel()


def apply_blast(inputs: Tensor, b: Tensor, d: Tensor, c: Tensor, *, out_features: int) -> Tensor:
    """Return W x for ``inputs [tokens, in]``, by the factors.

    B is ``[b, k/b, r]``, D ``[r, b, b]`` and C ``[b, r, d/b]``.

    Returns:
        ``[tokens, out_features]``.
    """
    read = batched_product(c, into_blocks(inputs, len(c), c.shape[2]))  # [j, r, tokens]
    coupled = torch.bmm(d, read.transpose(0, 1)).transpose(0, 1)  # [i, r, tokens]
    return from_blocks(batched_product(b, coupled, joined=True), out_features)
