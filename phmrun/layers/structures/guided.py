"""Guided: any structure, trained with a dense matrix beside it that fades away.

Formula:        W = α·D + (1 - α)·Ŵ, Ŵ of the structure within, D dense; α = (1 + cos(π·t / until)) / 2 falls from 1
                to 0 while the share t of the training that is done rises to ``until``, and is 0 from then on
Parameters:     those of Ŵ; in training k·d more
Initialisation: Ŵ as it would be drawn alone, D = Ŵ, as in the authors' code (github.com/CLAIRE-Labo/StructuredFFN,
                src/modules/layer/lowrank.py:62-64); version 1 drew D as a dense matrix
Source:         Wei et al., "Building on efficient foundations: effective training of LLMs with structured feedforward
                layers", NeurIPS 2024, section 4 (self-guided training, cosine schedule over the first half). They take
                two products; here W is built, and takes one

Only training sees D: in evaluation W is Ŵ, so that every score, the choice of a checkpoint among them, is that of the
structure; so is what is exported. α is a function of the optimizer step, which the training module sets before each
step (:meth:`Guided.set_progress`): no state has to be kept for a run to be continued.
"""

import math
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.structure import (
    Structure,
    build_structure,
    build_weight,
    checked_options,
    full_precision,
    register,
)
from phmrun.registry import STRUCTURES


@register("guided")
class Guided(Structure):
    """Any structure, with a dense matrix beside it that guides it through the first part of the training."""

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
        self.register_buffer("alpha", torch.full((), 0.5), persistent=False)  # where nobody sets it, both learn
        self.guides = True
        self.application = self.inside.application
        self.pays_from = self.inside.pays_from

    @classmethod
    def check(cls, out_features: int, in_features: int, *, of: str, options: str, until: float) -> str | None:  # type: ignore[override]
        """Whether the structure within fits."""
        if of not in STRUCTURES or of in (cls.name, "dense"):
            return f"of = {of!r}; valid of: any structure but dense and {cls.name} (`phmrun layers list`)"
        if not 0 < until <= 1:
            return f"until = {until}; valid until: above 0 and up to 1"
        reason: str | None = STRUCTURES.get(of).misfit(out_features, in_features, **parse_options(of, options))
        return reason

    def set_progress(self, done: float) -> None:
        """Sets α."""
        self.guides = done < self.until
        self.alpha.fill_((1 + math.cos(math.pi * done / self.until)) / 2 if self.guides else 0.0)

    def reset_parameters(self, std: float) -> None:
        """Ŵ as its structure, and D equal to it."""
        self.inside.reset_parameters(std)
        with torch.no_grad():
            self.dense.copy_(self.inside.materialize())

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """D is the matrix itself, Ŵ the best of its structure."""
        self.inside.fit(weight, covariance)
        with torch.no_grad():
            self.dense.copy_(weight)

    def materialize(self) -> Tensor:
        """W in training, Ŵ in evaluation and once D is gone."""
        if not self._guiding:
            return self.inside.materialize()
        return torch.lerp(self.inside.materialize(), self.dense, self.alpha.to(self.dense.dtype))

    def rows(self, index: Tensor) -> Tensor:
        """Rows of the two, mixed."""
        if not self._guiding:
            return self.inside.rows(index)
        with full_precision(self):  # autocast would leave rows of 16 bits beside a guide of 32
            return torch.lerp(self.inside.rows(index), F.embedding(index, self.dense), self.alpha.to(self.dense.dtype))

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """By W while D is there, else as the structure within."""
        return F.linear(inputs, build_weight(self)) if self._guiding else self.inside.apply_factored(inputs)

    def packed(self) -> nn.Module | None:
        """As the structure within: D has no part in inference."""
        return self.inside.packed()

    def token_multiplications(self) -> int:
        """As the structure within."""
        return self.inside.token_multiplications()

    def build_multiplications(self) -> int:
        """As the structure within."""
        return self.inside.build_multiplications()

    @property
    def _guiding(self) -> bool:
        return self.training and self.guides


def parse_options(of: str, text: str) -> dict[str, Any]:
    """``"n=8 variant=released"`` as the options of a structure, each in its own type.

    Raises:
        PhmrunError: An option that the structure does not have, or a value that it does not take.
    """
    parts = (part.partition("=") for part in text.replace(",", " ").split())
    return checked_options(of, {name: value for name, _, value in parts})
