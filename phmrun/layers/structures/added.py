"""Added: a frozen matrix plus an update of any structure, which starts at zero (adapters).

Formula:        W = W₀ + s·Ŵ, Ŵ of the inner structure, W₀ [k, d] frozen
Parameters:     those of Ŵ. W₀ is a buffer without gradient and is never stored
Initialization: Ŵ as its structure draws it, then the factor that is nearest to the output is set to zero, so that
                W = W₀. Of several factors, the one that :meth:`Structure.factors_read` names last
Source:         low-rank is LoRA (Hu et al., ICLR 2022), kronecker is KronA (Edalati et al. 2022), monarch is MoRe
                (Tan et al. 2024), phm has the maps of Compacter (Mahabadi et al., NeurIPS 2021)

``base="frozen"``: W₀ is the matrix that the map had before: :func:`phmrun.layers.convert` and ``phmrun train --extend``
take it over. ``base="random"``: W₀ is drawn from a seed, uniformly with a dense layer's variance.

The buffer ``origin`` is all that a state dict holds of W₀: its seed (-1: taken over), the bits of its standard
deviation, and its checksum. A drawn W₀ is drawn again when a state dict is loaded. A W₀ that was taken over must be in
place before, and have the same checksum. A draw uses integers and one product, so it has the same bits everywhere.
"""

import hashlib
import struct
from typing import Annotated, Any, ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from phmrun.errors import data_error
from phmrun.layers.adapters import start_at_zero
from phmrun.layers.structure import Structure, build_structure, register
from phmrun.layers.structures.guided import parse_options
from phmrun.registry import STRUCTURES

TAKEN = -1
"""Seed of a W₀ that was taken over."""
STEPS = 1 << 23
"""Half the number of values of an entry of a drawn W₀; float32 holds each exactly before it is scaled."""


@register("added")
class Added(Structure):
    """A frozen matrix plus a structured update (adapter): LoRA, KronA, MoRe and others."""

    formula = "W = W₀ + s·Ŵ, W₀ frozen, Ŵ starts at 0"
    count_formula = "that of Ŵ"
    constraint = "that of Ŵ"
    source = "Hu et al. 2022 (LoRA)"
    examples = (
        {"of": "low-rank", "options": "rank=4", "base": "random"},
        {"of": "phm", "options": "n=2", "base": "random", "scale": 2.0},
    )

    adapter: ClassVar[bool] = True

    origin: Tensor
    base: Tensor

    def __init__(
        self,
        out_features: int,
        in_features: int,
        *,
        of: Annotated[str, "The structure of Ŵ; dense: an update of every entry"] = "low-rank",
        options: Annotated[str, "Its options, such as 'rank=8'"] = "",
        base: Annotated[
            Literal["frozen", "random"], "W₀: the matrix before (convert, train --extend), or drawn from a seed"
        ] = "frozen",
        scale: Annotated[float, "Factor s of the update; LoRA's alpha / rank"] = 1.0,
    ) -> None:
        super().__init__(out_features, in_features, of=of, options=options, base=base, scale=scale)
        self.scale = scale
        self.inside = build_structure(of, out_features, in_features, **parse_options(of, options))
        self.register_buffer("base", torch.zeros(out_features, in_features), persistent=False)
        self.register_buffer("origin", torch.tensor([TAKEN, 0, 0]))
        self.checksum = 0
        self.application = self.inside.application

    @classmethod
    def check(  # type: ignore[override]
        cls, out_features: int, in_features: int, *, of: str, options: str, base: str, scale: float
    ) -> str | None:
        """Return why s, the inner structure or its options are invalid, else None.

        s is finite and not 0; ``of`` is any structure but added and guided, and fits the sizes with its options.

        Raises:
            PhmrunError: An option of the inner structure is unknown or has the wrong type.
        """
        if of not in STRUCTURES or STRUCTURES.get(of).adapter or STRUCTURES.get(of).temporary:
            return f"of = {of!r}; valid of: any structure but {cls.name} and guided (`phmrun layers`)"
        if not 0 < abs(scale) < float("inf"):
            return f"scale = {scale}; valid scale: any number but 0"
        return STRUCTURES.get(of).misfit(out_features, in_features, **parse_options(of, options))

    @classmethod
    def updates(cls, *, base: str = "frozen", **options: Any) -> bool:
        """Return True with ``base="frozen"``, otherwise False."""
        return base == "frozen"

    def frozen_count(self) -> int:
        """Return k·d; with ``base="random"`` 0, because a seed gives W₀."""
        return self.base.numel() if self.options["base"] == "frozen" else 0

    def reset_parameters(self, std: float) -> None:
        """Draw W₀ and set Ŵ to zero, in place, also with ``base="frozen"``.

        The new seed of W₀ is from torch's generator, and ``std`` its standard deviation. On the meta device W₀ is not
        drawn.

        Raises:
            PhmrunError: No trained parameters of the inner structure make Ŵ zero.
        """
        start_at_zero(self.inside, std)
        if not self.base.is_meta:
            self._draw(int(torch.randint(2**62, (), device="cpu")), std)

    @torch.no_grad()
    def take_over(self, weight: Tensor) -> None:
        """Copy a matrix ``[out_features, in_features]`` to W₀; record its checksum in ``origin``."""
        self.base.copy_(weight)
        self._sign(TAKEN, 0.0)

    def fit(self, weight: Tensor, covariance: Tensor | None = None) -> None:
        """Take ``weight`` over as W₀ and set Ŵ to zero, in place.

        With ``base="random"``, W₀ stays and Ŵ is fitted to (weight - W₀) / s instead. Only this uses the covariance.
        """
        if weight.is_meta:
            self.inside.reset_parameters(1.0)
        elif self.options["base"] == "frozen":
            start_at_zero(self.inside, float(weight.std() if weight.numel() > 1 else weight.abs()))
            self.take_over(weight)
        else:
            self.inside.fit((weight - self.base) / self.scale, covariance)

    def materialize(self) -> Tensor:
        """Return W₀ + s·Ŵ."""
        return torch.add(self.base, self.inside.materialize(), alpha=self.scale)

    def rows(self, index: Tensor) -> Tensor:
        """Return the rows ``index`` of W₀ + s·Ŵ, ``[tokens] -> [tokens, in_features]``."""
        return torch.add(F.embedding(index, self.base), self.inside.rows(index), alpha=self.scale)

    def apply_factored(self, inputs: Tensor) -> Tensor:
        """Return W₀ x + s·Ŵ x for ``inputs [tokens, in_features]``.

        Ŵ is applied by its factors, so that no gradient of a dense matrix is computed.
        """
        update = self.inside.apply_factored(inputs)
        return torch.add(F.linear(inputs, self.base), update, alpha=self.scale)

    def token_multiplications(self) -> int:
        """Return k·d, for W₀, plus those of the inner structure."""
        return self.out_features * self.in_features + self.inside.token_multiplications()

    def build_multiplications(self) -> int:
        """Return the inner structure's multiplications that build Ŵ."""
        return self.inside.build_multiplications()

    @torch.no_grad()
    def restore(self) -> None:
        """Draw W₀ again by ``origin``, or check that it is the same.

        W₀ is drawn if ``origin`` has a seed. In both cases its checksum must be that of ``origin``. Does nothing on the
        meta device.

        Raises:
            PhmrunError: (exit 3) W₀ has another checksum than ``origin``.
        """
        if self.base.is_meta or self.origin.is_meta:
            return
        seed, bits, checksum = self.origin.tolist()
        if seed != TAKEN:
            self._draw(seed, struct.unpack("<d", struct.pack("<q", bits))[0])
        if self.checksum != checksum:
            what = f"the frozen matrix W₀ has the checksum {self.checksum:016x}, not the stored {checksum:016x}"
            hint = "Load the update into the model whose weights were frozen; `phmrun verify` names a changed folder."
            raise data_error(what, None, hint)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *arguments: Any, **keywords: Any) -> None:
        """Load the buffers by torch's code, then restore W₀.

        It is restored only if the state dict has ``origin``.

        Raises:
            PhmrunError: (exit 3) W₀ has another checksum than ``origin``.
        """
        super()._load_from_state_dict(state_dict, prefix, *arguments, **keywords)
        if f"{prefix}origin" in state_dict:
            self.restore()

    @torch.no_grad()
    def _draw(self, seed: int, std: float) -> None:
        """Draw W₀ uniformly with standard deviation ``std``, the same on every device.

        ``origin`` and the checksum are set, too.
        """
        generator = torch.Generator().manual_seed(seed)
        shape = (self.out_features, self.in_features)
        whole = torch.randint(-STEPS, STEPS, shape, generator=generator, dtype=torch.int32, device="cpu")
        drawn = whole.float().mul_(3**0.5 * std / STEPS)
        self.base.copy_(drawn)
        self._sign(seed, std, drawn)

    def _sign(self, seed: int, std: float, weight: Tensor | None = None) -> None:
        """Record seed, standard deviation and checksum of W₀ in ``origin``.

        The checksum is 63 bits of the SHA-256 of W₀'s values. ``weight`` is W₀ before a change of its type; None: the
        present one.
        """
        values = (self.base if weight is None else weight).detach().cpu().contiguous()
        digest = hashlib.sha256(values.reshape(-1).view(torch.uint8).numpy().tobytes()).digest()
        self.checksum = int.from_bytes(digest[:8], "little") >> 1  # fits a signed integer of 64 bits
        bits = struct.unpack("<q", struct.pack("<d", std))[0]
        self.origin.copy_(torch.tensor([seed, bits, self.checksum]))
