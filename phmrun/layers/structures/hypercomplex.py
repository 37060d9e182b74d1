"""Hypercomplex: PHM with a fixed algebra (complex numbers, quaternions, octonions or sedenions).

Formula:        W = Σ_i A_i ⊗ S_i (``layout="blocks"``) or Σ_i S_i ⊗ A_i ("interleaved"), i = 1…n, S_i [k/n, d/n];
                A_i is the constant [n, n] matrix of q ↦ e_i·q for the i-th unit e_i of the algebra
Parameters:     k·d/n
Initialization: every entry of W is an entry of S up to its sign; S is uniform with the dense layer's variance
Source:         Cayley–Dickson construction; Gaudet and Maida, "Deep quaternion networks", IJCNN 2018; Parcollet et al.,
                "Quaternion recurrent neural networks", ICLR 2019; Tay et al., "Lightweight and
                efficient neural natural language processing with quaternion networks", ACL 2019 (Transformer)

The two layouts are the same map up to a fixed permutation of inputs and outputs. In "blocks" all real parts come first,
then all i parts, and so on; in "interleaved" the n parts of a number are adjacent. Interleaved is the default because
slices of features then contain whole numbers: attention heads, and Q, K and V of a joint map, are split component-wise,
as in the quaternion Transformer.
"""

import functools
from typing import Annotated, Literal

import torch
from torch import Tensor, nn

from phmrun.layers.structure import Product, Structure, draw_uniform, register
from phmrun.layers.structures.phm import apply_factors, factored_product, kronecker_rows, kronecker_sum, multiplications

Algebra = Literal["complex", "quaternion", "octonion", "sedenion"]
ORDERS: dict[str, int] = {"complex": 2, "quaternion": 4, "octonion": 8, "sedenion": 16}
"""Dimension n of each algebra."""


@register("hypercomplex")
class Hypercomplex(Structure):
    """Multiplication by numbers of a fixed algebra, with 1/n of the dense parameters."""

    formula = "W = Σ_i S_i ⊗ A_i, A constant"
    count_formula = "k·d/n"
    constraint = "n divides k and d; n = 2, 4, 8, 16"
    source = "Tay et al. 2019; Parcollet et al. 2019"
    examples = ({}, {"algebra": "octonion", "layout": "blocks"})
    linear = True

    a: Tensor

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        algebra: Annotated[Algebra, "Algebra of the weights, with n = 2, 4, 8 or 16 parts"] = "quaternion",
        layout: Annotated[
            Literal["interleaved", "blocks"],
            "Parts of a number side by side, so that heads are split component-wise; or n blocks of features",
        ] = "interleaved",
    ) -> None:
        super().__init__(out_features, in_features, algebra=algebra, layout=layout)
        n = ORDERS[algebra]
        self.layout = layout
        self.register_buffer("a", multiplication(n), persistent=False)
        self.s = nn.Parameter(torch.empty(n, out_features // n, in_features // n))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, algebra: str, **_: object) -> str | None:  # type: ignore[override]
        """Return why the algebra does not fit the sizes, else None.

        Its n must divide both sizes. The text lists the algebras that fit.
        """
        fitting = [name for name, n in ORDERS.items() if out_features % n == 0 and in_features % n == 0]
        if algebra in fitting:
            return None
        valid = ", ".join(fitting) or "none"
        return f"the {ORDERS[algebra]} parts of {algebra} numbers do not divide both sizes; valid algebras: {valid}"

    def reset_parameters(self, std: float) -> None:
        """Draw S uniformly with standard deviation ``std``, in place."""
        draw_uniform(self.s, std)

    def materialize(self) -> Tensor:
        """Return W = Σ_i A_i ⊗ S_i.

        In the layout "interleaved" it is Σ_i S_i ⊗ A_i.
        """
        return kronecker_sum(*self._terms())

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W by number, without building it."""
        return kronecker_rows(*self._terms(), index)

    def product(self) -> Product:
        """Return two matrix products, with A and S."""
        _, matrices, order = factored_product(self.a, self.s)
        return apply_numbers, matrices, {**order, "interleaved": self.layout == "interleaved"}

    def build_multiplications(self) -> int:
        """Return n·k·d, the multiplications that build W."""
        return len(self.s) * self.out_features * self.in_features

    def token_multiplications(self) -> int:
        """Return the multiplications of both products per vector.

        See :func:`phmrun.layers.structures.phm.multiplications`.
        """
        return multiplications(self.a, self.s)

    def _terms(self) -> tuple[Tensor, Tensor]:
        """Return the first and second factors of the Kronecker products.

        A and S in the layout "blocks", S and A in "interleaved".
        """
        return (self.a, self.s) if self.layout == "blocks" else (self.s, self.a)


def apply_numbers(inputs: Tensor, mixer: Tensor, weight: Tensor, mixer_first: bool, interleaved: bool) -> Tensor:
    """Return W x by the factors of the layout "blocks".

    Shapes: ``[tokens, d] -> [tokens, k]``.

    If ``interleaved``, inputs are permuted to that layout before, and outputs back after.
    """
    if not interleaved:
        return apply_factors(inputs, mixer, weight, mixer_first)
    n = min(mixer.shape)
    blocks = inputs.unflatten(1, (inputs.shape[1] // n, n)).transpose(1, 2).flatten(1)
    outputs = apply_factors(blocks, mixer, weight, mixer_first)
    return outputs.unflatten(1, (n, outputs.shape[1] // n)).transpose(1, 2).flatten(1)


def multiplication(n: int) -> Tensor:
    """Return A ``[n, n, n]``: A_i is the matrix of q ↦ e_i·q.

    A_i[c, b] is part c of e_i·e_b: 1, −1 or 0.
    """
    table = torch.zeros(n, n, n)
    for i in range(n):
        for b in range(n):
            table[i, i ^ b, b] = sign(n, i, b)
    return table


@functools.cache
def sign(n: int, i: int, j: int) -> int:
    """Return the sign of e_i·e_j in the algebra of dimension n, 1 or −1.

    The product is ±e_(i xor j). Cayley–Dickson construction from dimension n/2:
    (p, q)(r, s) = (p r - s* q, s p + q r*), * the conjugate.
    """
    if n == 1:
        return 1
    half = n // 2
    p, r = i % half, j % half
    conjugate = 1 if r == 0 else -1
    product = sign(half, p, r) if j < half else sign(half, r, p)
    if i < half:
        return product
    return conjugate * product if j < half else -conjugate * product
