"""PHM: parameterised hypercomplex multiplication, a sum of n Kronecker products.

Formula:        W = Σ_i A_i ⊗ S_i, i = 1…n, A_i [n, n], S_i [k/n, d/n]
Parameters:     k·d/n + n³
Initialisation: Var(W) = Σ_i A_i²·Var(S). S has the variance that a dense W would have, and the n numbers A_i[a, b] of
                each block are a random unit vector, so that every block of W has the dense layer's standard deviation
                whatever n is. (Independent A of variance 1/n would do so on average only: n = 1 would be off by half.)
Source:         Zhang et al., "Beyond Fully-Connected Layers with Quaternions", ICLR 2021, equation 4

``variant="released"`` is what the authors' released code computes: S is repeated along the axis that A contracts, so
that A enters only through its row sums, and block (i, a) of W is rowsum(A_i)[a] · S_i.
"""

import math
from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.structure import Structure, register


@register("phm")
class PHM(Structure):
    """A sum of n Kronecker products: 1/n of the dense parameters, plus n³ that rule how they mix."""

    formula = "W = Σ_i A_i ⊗ S_i"
    count_formula = "k·d/n + n³"
    constraint = "n divides k and d"
    source = "Zhang et al. 2021, eq. 4"

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        n: Annotated[int, "Kronecker order: W takes 1/n of the dense parameters; divides both sizes"] = 4,
        variant: Annotated[
            Literal["paper", "released"], "'paper': the formula above; 'released': the authors' code, row sums of A"
        ] = "paper",
    ) -> None:
        super().__init__(out_features, in_features, n=n, variant=variant)
        self.n = n
        self.variant = variant
        self.a = nn.Parameter(torch.empty(n, n, n))
        self.s = nn.Parameter(torch.empty(n, out_features // n, in_features // n))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, n: int = 4, variant: str = "paper") -> str | None:  # type: ignore[override]
        """Whether n divides both sizes."""
        if n >= 1 and out_features % n == 0 and in_features % n == 0:
            return None
        common = math.gcd(out_features, in_features)
        divisors = [str(value) for value in range(1, min(common, 64) + 1) if common % value == 0]
        return f"n = {n} does not divide both sizes; valid n: {', '.join(divisors)}"

    @classmethod
    def count(cls, out_features: int, in_features: int, *, n: int = 4, variant: str = "paper") -> int:  # type: ignore[override]
        """k·d/n + n³."""
        return out_features * in_features // n + n**3

    def reset_parameters(self, std: float) -> None:
        """S uniform with standard deviation ``std``; A a random unit vector per block."""
        nn.init.uniform_(self.s, -math.sqrt(3) * std, math.sqrt(3) * std)
        nn.init.normal_(self.a)
        with torch.no_grad():
            if self.variant == "released":
                self.a.div_(self.a.sum(2).square().mean().sqrt())
            else:
                self.a.div_(self.a.norm(dim=0))

    def materialize(self) -> Tensor:
        """One product [n², n] @ [n, kd/n²] gives every block; one permutation puts the blocks in their places."""
        n, block_rows, block_columns = self.s.shape
        if self.variant == "released":
            factors = self.a.sum(2)[:, None, :, None]  # [i, 1, a, 1]
            blocks = factors * self.s[:, :, None, :]  # [i, block_rows, a, block_columns]
        else:
            products = self.a.view(n, n * n).t() @ self.s.view(n, -1)  # [(a, b), (block_rows, block_columns)]
            blocks = products.view(n, n, block_rows, block_columns).transpose(1, 2)
        return blocks.reshape(self.out_features, self.in_features)

    def rows(self, index: Tensor) -> Tensor:
        """Row (a, p) is Σ_i A_i[a, :] ⊗ S_i[p, :]: one gather of each factor and a batched product."""
        block_rows = self.s.shape[1]
        flat = index.reshape(-1)
        block, place = flat // block_rows, flat % block_rows
        if self.variant == "released":
            factors = self.a.sum(2)[block]  # [tokens, n]
            row = factors[:, :, None] * self.s[block, place][:, None, :]
        else:
            mix = self.a.index_select(1, block).permute(1, 2, 0)  # [tokens, b, i]
            row = mix @ self.s.index_select(1, place).transpose(0, 1)  # [tokens, b, block_columns]
        return row.reshape(*index.shape, self.in_features)

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """As :meth:`packed`, from the parameters as they are (differentiable)."""
        return _apply(inputs, *_pack(self))

    def packed(self) -> nn.Module:
        """A and S laid out as the two matrix products of the factored application."""
        return PackedPHM(self)


class PackedPHM(nn.Module):
    """y = W x without W, in two products that read kd/n + n³ numbers.

    A goes first where k ≥ d, S first otherwise, so that the larger of the two intermediate results is never made.
    """

    def __init__(self, structure: PHM) -> None:
        super().__init__()
        mixer, weight, self.mixer_first = _pack(structure)
        self.mixer = nn.Parameter(mixer.detach().contiguous(), requires_grad=False)
        self.weight = nn.Parameter(weight.detach().contiguous(), requires_grad=False)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[tokens, in_features] -> [tokens, out_features]``."""
        return _apply(inputs, self.mixer, self.weight, self.mixer_first)


def _pack(structure: PHM) -> tuple[Tensor, Tensor, bool]:
    """The small mixing matrix, the large matrix, and whether the mixing comes first."""
    n, block_rows, block_columns = structure.s.shape
    a: Tensor = structure.a
    s: Tensor = structure.s
    if structure.variant == "released":
        # Block (i, a) is rowsum(A_i)[a]·S_i: the paper's form with A'_i[a, b] = [a = i]·rowsum(A_i)[b].
        a = torch.diag_embed(a.sum(2).t(), dim1=0, dim2=1)
    if structure.out_features >= structure.in_features:
        mixer = a.transpose(0, 1).reshape(n * n, n)  # [(a, i), b]
        return mixer, s.transpose(0, 1).reshape(block_rows, n * block_columns), True
    mixer = a.permute(1, 2, 0).reshape(n, n * n)  # [a, (b, i)]
    return mixer, s.reshape(n * block_rows, block_columns), False


def _apply(inputs: Tensor, mixer: Tensor, weight: Tensor, mixer_first: bool) -> Tensor:
    """The two products; ``inputs [tokens, in_features]``."""
    tokens, (rows, columns) = inputs.shape[0], weight.shape
    n = min(mixer.shape)
    if mixer_first:
        mixed = mixer @ inputs.view(tokens, n, columns // n)  # [tokens, (a, i), block_columns]
        return F.linear(mixed.view(tokens * n, columns), weight).view(tokens, n * rows)
    products = F.linear(inputs.reshape(tokens * n, columns), weight)  # [(tokens, b), (i, block_rows)]
    return (mixer @ products.view(tokens, n * n, rows // n)).view(tokens, rows)
