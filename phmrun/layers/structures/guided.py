"""Guided: any structure, mixed in training with a dense matrix whose weight falls to 0.

Formula:        W = α·D + (1 - α)·Ŵ, Ŵ of the inner structure, D dense.
                `α = (1 + cos(π·t / until)) / 2` for the completed share t of training, 0 for t ≥ until
Parameters:     those of Ŵ; in training k·d more
Initialization: Ŵ as its structure draws it, D = Ŵ, as in the authors' code (github.com/CLAIRE-Labo/StructuredFFN,
                src/modules/layer/lowrank.py:62-64); version 1 drew D as a dense matrix
Source:         Wei et al., "Building on efficient foundations: effective training of LLMs with structured feedforward
                layers", NeurIPS 2024, section 4 (self-guided training, cosine schedule over the first half). They
                compute two products; here W is built and applied in one

D is used in training only. In evaluation and export W = Ŵ, so all scores, including those that select a checkpoint,
belong to the structure. `α` depends on the optimizer step only: the training module sets it before each step
(:meth:`Guided.set_progress`). Checkpoints need no state for it.
"""

import math
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.config.options import checked_options, options_of
from phmrun.layers.structure import Structure, build_structure, build_weight, full_precision, register
from phmrun.registry import STRUCTURES


@register("guided")
class Guided(Structure):
    """Any structure, guided by a dense matrix in the first part of training."""

    formula = "W = α·D + (1 - α)·Ŵ, α falls to 0"
    count_formula = "that of Ŵ; in training k·d more"
    constraint = "that of Ŵ"
    source = "Wei et al. 2024, section 4"
    examples = ({"of": "phm", "options": "n=2"}, {"of": "low-rank"}, {"of": "monarch", "until": 1.0})
    temporary: ClassVar[tuple[str, ...]] = ("dense",)

    alpha: Tensor

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        of: Annotated[str, "The structure of Ŵ"] = "phm",
        options: Annotated[str, "Its options, such as 'n=8 variant=released'"] = "",
        until: Annotated[float, "Share of the training after which D is gone"] = 0.5,
    ) -> None:
        super().__init__(out_features, in_features, of=of, options=options, until=until)
        self.until = until
        self.inside = build_structure(of, out_features, in_features, **parse_options(of, options))
        self.dense = nn.Parameter(torch.empty(out_features, in_features))
        self.register_buffer("alpha", torch.full((), 0.5), persistent=False)  # default without set_progress: both learn
        self.guides = True
        self.application = self.inside.application
        self.pays_from = self.inside.pays_from

    @classmethod
    def check(cls, out_features: int, in_features: int, *, of: str, options: str, until: float) -> str | None:  # type: ignore[override]
        """Return why ``of``, ``options`` or ``until`` is invalid, else None.

        ``of`` is any structure but dense, added and guided, with options that fit the sizes; ``until`` is above 0 and
        at most 1.

        Raises:
            PhmrunError: An option of the inner structure is unknown or has the wrong type.
        """
        if of not in STRUCTURES or of in (cls.name, "dense") or STRUCTURES.get(of).adapter:
            return f"of = {of!r}; valid of: any structure but dense, added and {cls.name} (`phmrun layers`)"
        if not 0 < until <= 1:
            return f"until = {until}; valid until: above 0 and up to 1"
        return STRUCTURES.get(of).misfit(out_features, in_features, **parse_options(of, options))

    def set_progress(self, done: float) -> None:
        """Set α from the completed share of training, ``done``.

        `α = (1 + cos(π·done / until)) / 2`; 0 from ``until`` on. Before the first call it is 1/2.
        """
        self.guides = done < self.until
        self.alpha.fill_((1 + math.cos(math.pi * done / self.until)) / 2 if self.guides else 0.0)

    def reset_parameters(self, std: float) -> None:
        """Draw Ŵ by its structure, and copy it to D, in place."""
        self.inside.reset_parameters(std)
        self.copy_to_dense()

    @torch.no_grad()
    def copy_to_dense(self) -> None:
        """Copy Ŵ to D, in place."""
        if not self.dense.is_meta:  # the product's meta kernel imports torch's compiler
            self.dense.copy_(self.inside.materialize())

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Fit Ŵ by its structure, and copy ``weight`` to D, in place.

        Only Ŵ takes the covariance into account.
        """
        self.inside.fit(weight, covariance)
        with torch.no_grad():
            self.dense.copy_(weight)

    def materialize(self) -> Tensor:
        """Return W in training mode while α > 0, otherwise Ŵ."""
        if not self._guiding:
            return self.inside.materialize()
        return torch.lerp(self.inside.materialize(), self.dense, self.alpha.to(self.dense.dtype))

    def rows(self, index: Tensor) -> Tensor:
        """Return rows of W in training while α > 0, otherwise of Ŵ."""
        if not self._guiding:
            return self.inside.rows(index)
        with full_precision(self):  # under autocast, lerp would mix 16-bit rows with 32-bit ones
            return torch.lerp(self.inside.rows(index), F.embedding(index, self.dense), self.alpha.to(self.dense.dtype))

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """Return W x in training while α > 0, otherwise Ŵ x by its factors.

        In the first case W is built.
        """
        return F.linear(inputs, build_weight(self)) if self._guiding else self.inside.apply_factored(inputs)

    def packed(self) -> nn.Module | None:
        """Return the packed form of Ŵ, or None.

        None if Ŵ has none; D has no part in inference.
        """
        return self.inside.packed()

    def token_multiplications(self) -> int:
        """Return the inner structure's multiplications per vector, without those of D."""
        return self.inside.token_multiplications()

    def build_multiplications(self) -> int:
        """Return the inner structure's multiplications that build Ŵ."""
        return self.inside.build_multiplications()

    @property
    def _guiding(self) -> bool:
        """True in training mode if the completed share of training is below ``until``, or not set yet."""
        return self.training and self.guides


def parse_options(of: str, text: str) -> dict[str, Any]:
    """Return the options of structure ``of`` from a text, in their types.

    An example is ``"n=8 variant=released"``. Options are separated by whitespace or commas. Of an option that occurs
    twice, the last value counts; options that do not occur are left out. An empty text has none.

    Raises:
        PhmrunError: The structure or option is unknown, or a value is invalid or missing.
    """
    parts = (part.partition("=") for part in text.replace(",", " ").split())
    return checked_options(f"layer {of!r}", options_of(of), {name: value for name, _, value in parts})
