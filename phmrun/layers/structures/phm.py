"""PHM: parameterized hypercomplex multiplication, a sum of n Kronecker products.

Formula:        W = Σ_i A_i ⊗ S_i, i = 1…n, A_i [n, n], S_i [k/n, d/n]
Parameters:     k·d/n + n³; with ``dual`` 2n³ instead of n³
Initialization: Var(W) = Σ_i A_i²·Var(S). S has the variance of a dense W. The n numbers A_i[a, b] of each block are a
                random unit vector, so that every block of W has the dense layer's standard deviation for any n.
                (Independent A of variance 1/n would achieve this on average only.) With ``dual``, B is zero,
                σ(B) = ½ everywhere, and A is twice as large
Source:         Zhang et al., "Beyond Fully-Connected Layers with Quaternions", ICLR 2021, equation 4

``variant="released"`` is the computation of the authors' released code: S is repeated along the axis that A contracts.
A then enters only through its row sums. That code multiplies rows by H, the transpose of W: block (a, i) of W is
rowsum(A_i)[a] · S_i. ``dual`` is an option of that code: A is replaced by A·σ(B), element by element, with B another
[n, n, n].

The functions below the class accept any W = Σ_i A_i ⊗ S_i, i = 1…r, with A ``[r, p, q]`` and S ``[r, k/p, d/q]``. One
matrix product over i computes all blocks of W, faster than ``torch.kron`` for each term. Rows of W and products with
few tokens are computed without W.
"""

from typing import Annotated, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.fitting import best_kronecker_sum
from phmrun.layers.structure import Product, Structure, draw_uniform, register


@register("phm")
class PHM(Structure):
    """Sum of n Kronecker products: 1/n of the dense parameters plus n³ mixing weights."""

    formula = "W = Σ_i A_i ⊗ S_i"
    count_formula = "k·d/n + n³"
    constraint = "n divides k and d"
    source = "Zhang et al. 2021, eq. 4"
    examples = ({"n": 2}, {"n": 4, "variant": "released"}, {"n": 4, "dual": True})

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        n: Annotated[int, "Kronecker order: W takes 1/n of the dense parameters; divides both sizes"] = 4,
        variant: Annotated[
            Literal["paper", "released"], "'paper': the formula above; 'released': the authors' code, row sums of A"
        ] = "paper",
        dual: Annotated[bool, "A·σ(B) in the place of A, with n³ more parameters, as in the authors' code"] = False,
    ) -> None:
        super().__init__(out_features, in_features, n=n, variant=variant, dual=dual)
        self.n = n
        self.variant = variant
        self.a = nn.Parameter(torch.empty(n, n, n))
        self.b = nn.Parameter(torch.empty(n, n, n)) if dual else None
        self.s = nn.Parameter(torch.empty(n, out_features // n, in_features // n))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, n: int, **_: object) -> str | None:  # type: ignore[override]
        """Return why n does not divide both sizes, else None.

        The text lists the valid n up to 64.
        """
        if n >= 1 and out_features % n == 0 and in_features % n == 0:
            return None
        valid = [str(value) for value in range(1, 65) if out_features % value == 0 and in_features % value == 0]
        return f"n = {n} does not divide both sizes; valid n: {', '.join(valid)}"

    def reset_parameters(self, std: float) -> None:
        """Draw S uniformly with standard deviation ``std``, and A, in place.

        The n numbers A_i[a, b] of a block are a random unit vector. The released variant scales A to row sums with a
        mean square of 1. With ``dual``, B becomes zero and A twice as large.
        """
        draw_uniform(self.s, std)
        unit_mixers(self.a)
        with torch.no_grad():
            if self.variant == "released" and not self.a.is_meta:  # its meta kernels import torch's compiler
                self.a.div_(self.a.sum(2).square().mean().sqrt())
            if self.b is not None:
                nn.init.zeros_(self.b)
                self.a.div_(torch.sigmoid(self.b))

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit in place by the n largest singular vectors of Van Loan's rearrangement.

        With a covariance, a fit by gradients follows. With ``dual``, B becomes zero and A is doubled. The
        released variant is fitted by gradients from the present parameters instead, B included.
        """
        if self.variant == "paper":
            with torch.no_grad():
                a, s = best_kronecker_sum(weight, self.n, self.n, self.n)
                if self.b is not None:
                    nn.init.zeros_(self.b)
                    a = 2 * a
                self.a.copy_(a)
                self.s.copy_(s)
        if self.variant == "released" or covariance is not None:
            super().fit(weight, covariance)

    def mixers(self) -> Tensor:
        """Return A ``[n, n, n]`` of the formula, differentiable.

        With a B, it is A ⊙ σ(B). For variants other than "paper", A'_i[a, b] = [b = i]·rowsum(A_i)[a].
        """
        a = self.a if self.b is None else self.a * torch.sigmoid(self.b)
        if self.variant == "paper":
            return a
        # Block (a, i) is rowsum(A_i)[a]·S_i: the paper's form with A'_i[a, b] = [b = i]·rowsum(A_i)[a].
        return torch.diag_embed(a.sum(2).t(), dim1=0, dim2=2)

    def materialize(self) -> Tensor:
        """Return W by one product [n², n] @ [n, kd/n²] and one permutation."""
        return kronecker_sum(self.mixers(), self.s)

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it.

        Row (a, p) is Σ_i A_i[a, :] ⊗ S_i[p, :].
        """
        return kronecker_rows(self.mixers(), self.s, index)

    def product(self) -> Product:
        """Return two matrix products, with A and S."""
        return factored_product(self.mixers(), self.s)

    def build_multiplications(self) -> int:
        """Return n·k·d, the multiplications that build W."""
        return self.n * self.out_features * self.in_features

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of A and S.

        The factors are cores of a tensor train. A: (n², n), it has n inputs. S: (k/n, d), d/n inputs of each of n
        terms.
        """
        return {"a": (self.n**2, self.n), "s": (self.out_features // self.n, self.in_features)}

    def token_multiplications(self) -> int:
        """Return the multiplications of both products per vector; see :func:`multiplications`."""
        return multiplications(self.a, self.s)


def kronecker_sum(a: Tensor, s: Tensor) -> Tensor:
    """Return W = Σ_i A_i ⊗ S_i ``[k, d]``.

    Computed by one product [pq, r] @ [r, kd/pq] and one permutation of its blocks.
    """
    r, p, q = a.shape
    _, block_rows, block_columns = s.shape
    products = a.reshape(r, p * q).t() @ s.reshape(r, -1)  # [(p, q), (block_rows, block_columns)]
    blocks = products.view(p, q, block_rows, block_columns).transpose(1, 2)
    return blocks.reshape(p * block_rows, q * block_columns)


def kronecker_rows(a: Tensor, s: Tensor, index: Tensor) -> Tensor:
    """Return rows of Σ_i A_i ⊗ S_i by number.

    Shapes: ``[tokens] -> [tokens, d]``, without building it.
    """
    block_rows = s.shape[1]
    block, place = index // block_rows, index % block_rows
    mix = a.index_select(1, block).permute(1, 2, 0)  # [tokens, q, i]
    return (mix @ s.index_select(1, place).transpose(0, 1)).flatten(1)  # of [tokens, q, block_columns]


def factored_product(a: Tensor, s: Tensor) -> Product:
    """Return :func:`apply_factors` with A and S as its two matrices, and the order in which they are applied.

    A comes first if that takes at most as many multiplications. It is then ``[p·r, q]``, otherwise ``[p, q·r]``; S is
    ``[k/p, r·d/q]``, otherwise ``[r·k/p, d/q]``.
    """
    r, p, q = a.shape
    _, block_rows, block_columns = s.shape
    if p * block_columns * (q + block_rows) <= q * block_rows * (block_columns + p):
        mixer = a.transpose(0, 1).reshape(p * r, q)  # [(p, i), q]
        weight = s.transpose(0, 1).reshape(block_rows, r * block_columns)
        return apply_factors, (mixer, weight), {"mixer_first": True}
    mixer = a.permute(1, 2, 0).reshape(p, q * r)  # [p, (q, i)]
    return apply_factors, (mixer, s.reshape(r * block_rows, block_columns)), {"mixer_first": False}


def multiplications(a: Tensor, s: Tensor) -> int:
    """Return the multiplications per token of :func:`apply_factors`, in the cheaper order.

    ``a [r, p, q]`` and ``s [r, k/p, d/q]`` give the sizes only.
    """
    r, p, q = a.shape
    _, block_rows, block_columns = s.shape
    return r * min(p * block_columns * (q + block_rows), q * block_rows * (block_columns + p))


def apply_factors(inputs: Tensor, mixer: Tensor, weight: Tensor, mixer_first: bool) -> Tensor:
    """Return W x by the two matrices of :func:`factored_product`.

    Shapes: ``[tokens, d] -> [tokens, k]``.

    The product with the mixer is a ``bmm`` over tokens, which has less overhead than ``@``.
    """
    tokens, size = inputs.shape
    rows, columns = weight.shape
    if mixer_first:
        blocks = mixer.shape[1]
        p = mixer.shape[0] * (size // blocks) // columns
        split = inputs.reshape(tokens, blocks, size // blocks)
        mixed = torch.bmm(mixer.expand(tokens, -1, -1), split)  # [tokens, (p, i), block_columns]
        return F.linear(mixed.view(tokens * p, columns), weight).view(tokens, p * rows)
    q = size // columns
    p, between = mixer.shape
    products = F.linear(inputs.reshape(tokens * q, columns), weight)  # [(tokens, q), (i, block_rows)]
    block_rows = rows * q // between
    split = products.view(tokens, between, block_rows)
    return torch.bmm(mixer.expand(tokens, -1, -1), split).view(tokens, p * block_rows)


def unit_mixers(a: Tensor) -> None:
    """Draw A ``[r, p, q]`` in place, a random unit vector for each block.

    The r numbers of a block are the vector. Every block of W then has the variance of S for any r. Independent numbers
    of variance 1/r would achieve this only on average over blocks. A meta tensor stays as it is.
    """
    if a.is_meta:
        return  # nothing to draw; the norm of a meta tensor takes most of the time of a count
    nn.init.normal_(a)
    with torch.no_grad():
        a.div_(a.norm(dim=0))
