"""Kronecker (Shapeshifter): a sum of r Kronecker products, cut to the size of W.

Formula:        W is the first k rows and d columns of Σ_i A_i ⊗ B_i, i = 1…r, A_i [p, q], B_i [s, t]; the sum is a
                rearranged matrix [p·q, s·t] of rank r
Parameters:     r·(p·q + s·t), see below
Initialization: Var(W) = Σ_i A_i²·Var(B). B has the variance of a dense W. The r numbers A_i[α, β] of each block are a
                random unit vector, as in PHM
Source:         "Shapeshifter: a parameter-efficient Transformer using factorized reshaped matrices", 2021, section 4

Factors "ceil", from the paper (section 4 and corollary 3): p = s = ⌈√k⌉ and q = t = ⌈√d⌉. These are 2·r·⌈√k⌉·⌈√d⌉
numbers, some of which may lie outside W.

Factors "divisors": p·s = k and q·t = d, with p·q and s·t as near to √(k·d) as integers allow. Nothing is cut, and
powers of two need fewer numbers.

Padding of "divisors": if the nearest two factors of k·d differ by more than a factor of four (such as for a large prime
vocabulary), the longer side of W is enlarged by less than one block. W is then cut from the larger matrix. A printed
layer shows p×q and s×t: W is padded if p·s > k or q·t > d.
"""

import math
from collections.abc import Callable
from typing import Annotated, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.fitting import best_kronecker_sum
from phmrun.layers.structure import Product, Structure, draw_uniform, register
from phmrun.layers.structures.phm import apply_factors, factored_product, kronecker_sum, multiplications, unit_mixers

Division = Literal["ceil", "divisors"]
"""Rule for the sizes of the factors."""

APART = 4
"""Largest accepted ratio of the factors a and b; a larger one costs over 1.25 times as much as a = b = √(k·d)."""


class Shapes(NamedTuple):
    """Sizes of the factors: A_i is ``[p, q]`` and B_i ``[s, t]``."""

    p: int
    q: int
    s: int
    t: int

    @property
    def numbers(self) -> int:
        """Number of parameters per unit of rank, a + b = p·q + s·t."""
        return self.p * self.q + self.s * self.t


@register("kronecker")
class Kronecker(Structure):
    """Sum of r Kronecker products, cut to the size of W: about 2·r·√(k·d) parameters for any shape."""

    formula = "W = Σ_i A_i ⊗ B_i, i = 1…r"
    count_formula = "2·r·⌈√k⌉·⌈√d⌉; divisors: r·(a + b), a·b = k·d"
    constraint = "none"
    source = "Shapeshifter 2021, section 4"
    examples = ({"rank": 3},)

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        rank: Annotated[int, "Number r of Kronecker products"] = 16,
        factors: Annotated[
            Division, "Sizes of the factors: 'ceil': ⌈√k⌉ × ⌈√d⌉, W being cut out; 'divisors': the nearest that divide"
        ] = "ceil",
    ) -> None:
        super().__init__(out_features, in_features, rank=rank, factors=factors)
        self.shapes = SHAPES[factors](out_features, in_features)
        p, q, s, t = self.shapes
        self.a = nn.Parameter(torch.empty(p, q, rank))
        self.b = nn.Parameter(torch.empty(s, rank, t))

    @classmethod
    def check(cls, out_features: int, in_features: int, *, rank: int, **_: object) -> str | None:  # type: ignore[override]
        """Return why ``rank`` is invalid, else None; it is at least 1."""
        return None if rank >= 1 else f"rank = {rank}; valid rank: 1 or more"

    def reset_parameters(self, std: float) -> None:
        """Draw B uniformly with standard deviation ``std``, and A, in place.

        The r numbers A_i[α, β] of a block are a random unit vector.
        """
        draw_uniform(self.b, std)
        with torch.no_grad():
            unit_mixers(self.a.permute(2, 0, 1))

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit r Kronecker products in place, as for PHM.

        If W is cut from a larger matrix, the fit to the zero-padded W is refined by gradients; only these use the
        covariance.
        """
        p, q, s, t = self.shapes
        more_rows, more_columns = p * s - self.out_features, q * t - self.in_features
        with torch.no_grad():
            padded = F.pad(weight, (0, more_columns, 0, more_rows))
            a, b = best_kronecker_sum(padded, p, q, self.a.shape[2])
            self.a.copy_(a.permute(1, 2, 0))
            self.b.copy_(b.transpose(0, 1))
        if more_rows or more_columns or covariance is not None:
            super().fit(weight, covariance)

    def materialize(self) -> Tensor:
        """Return W, the first k rows and d columns of the sum of products."""
        return kronecker_sum(*self._terms())[: self.out_features, : self.in_features]

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W without building it.

        Row α·s + σ is Σ_i A_i[α, :] ⊗ B_i[σ, :], cut to d numbers.
        """
        s = self.shapes.s
        mix = self.a.index_select(0, index // s)  # [tokens, q, r]
        row = mix @ self.b.index_select(0, index % s)  # [tokens, q, t]
        return row.flatten(1)[:, : self.in_features]

    def product(self) -> Product:
        """Return two matrix products, with A and B."""
        _, matrices, order = factored_product(*self._terms())
        sizes = {"columns": self.shapes.q * self.shapes.t, "out_features": self.out_features}
        return apply_padded, matrices, {**order, **sizes}

    def build_multiplications(self) -> int:
        """Return r times the entries of the matrix that W is cut from."""
        p, q, s, t = self.shapes
        return self.a.shape[2] * p * q * s * t

    def factors_read(self) -> dict[str, tuple[int, int]]:
        """Return the fans (fan-out, fan-in) of A and B.

        The factors are cores of a tensor train. A: (p·r, q), it has q inputs. B: (s, t·r), t inputs of each of r terms.
        """
        p, q, s, t = self.shapes
        rank = self.a.shape[2]
        return {"a": (p * rank, q), "b": (s, t * rank)}

    def token_multiplications(self) -> int:
        """Return the multiplications of both products per vector.

        See :func:`phmrun.layers.structures.phm.multiplications`.
        """
        return multiplications(*self._terms())

    def packed(self) -> nn.Module | None:
        """Return a module that applies copies of A and B.

        None if they take over twice the multiplications of W.
        """
        most = 2 * self.out_features * self.in_features
        return None if multiplications(*self._terms()) > most else super().packed()

    def _terms(self) -> tuple[Tensor, Tensor]:
        """Return views of A ``[r, p, q]`` and B ``[r, s, t]``.

        They are stored by rows, so that a lookup reads contiguous memory.
        """
        return self.a.permute(2, 0, 1), self.b.transpose(0, 1)


def apply_padded(
    inputs: Tensor, mixer: Tensor, weight: Tensor, mixer_first: bool, columns: int, out_features: int
) -> Tensor:
    """Return W x by factors of a larger matrix.

    W is its first rows and columns. Inputs ``[tokens, in_features]`` are padded with zeros to ``columns``, outputs cut
    to ``out_features``.

    Returns:
        ``[tokens, out_features]``.
    """
    padding = columns - inputs.shape[1]
    padded = F.pad(inputs, (0, padding)) if padding else inputs
    return apply_factors(padded, mixer, weight, mixer_first)[:, :out_features]


def ceil_shapes(out_features: int, in_features: int) -> Shapes:
    """Return ⌈√k⌉ × ⌈√d⌉ for both factors."""
    rows, columns = (math.isqrt(size - 1) + 1 for size in (out_features, in_features))
    return Shapes(rows, columns, rows, columns)


def nearest_shapes(out_features: int, in_features: int) -> Shapes:
    """Return the shapes with the smallest p·q + s·t.

    p·s = k and q·t = d. Of equals, the one whose p is nearest to √k by ratio. If p·q and s·t then differ by more than a
    factor of 4 (``APART``), the longer side is padded instead.
    """
    pairs = [(p, q) for p in divisors(out_features) for q in divisors(in_features)]

    def cost(pair: tuple[int, int]) -> tuple[int, float]:
        """Return a + b of a pair (p, q), then the distance of p from √k.

        The latter breaks ties.
        """
        a = pair[0] * pair[1]
        # Ties: as in the paper, A is nearest to √k × √d.
        return a + out_features * in_features // a, abs(math.log(pair[0] ** 2 / out_features))

    p, q = min(pairs, key=cost)
    s, t = out_features // p, in_features // q
    if max(p * q, s * t) <= APART * min(p * q, s * t):
        return Shapes(p, q, s, t)
    if out_features >= in_features:
        return _padded(out_features, in_features)
    q, p, t, s = _padded(in_features, out_features)
    return Shapes(p, q, s, t)


def _padded(longer: int, shorter: int) -> Shapes:
    """Return the shapes with the smallest p·q + s·t, with padding.

    p·s is ``longer`` or more by less than a block of s rows, q·t is ``shorter``. Of equals, the one with the least
    padding. p and q are sizes of A, s and t of B.
    """
    root = math.sqrt(longer * shorter)
    candidates = []
    for q in divisors(shorter):
        for p in {max(1, min(longer, whole)) for whole in (math.floor(root / q), math.ceil(root / q))}:
            s = -(-longer // p)
            candidates.append(Shapes(-(-longer // s), q, s, shorter // q))
    return min(candidates, key=lambda shapes: (shapes.numbers, shapes.p * shapes.s))


def divisors(number: int) -> list[int]:
    """Return all divisors, unordered."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return [*small, *(number // divisor for divisor in small)]


SHAPES: dict[str, Callable[[int, int], Shapes]] = {"ceil": ceil_shapes, "divisors": nearest_shapes}
"""Functions of (k, d) that return the shapes of the factors, by value of the option."""
