"""DeFINE: deep token embeddings, from n numbers per token to k by an HGT, then down to m.

Formula:        eᵥ = row v of the mapping;  êᵥ = HGT(eᵥ);  embedding = W [êᵥ, eᵥ]
Parameters:     those of the mapping and of the HGT; + (k + n)·m
Source:         Mehta et al., "DeFINE: Deep Factorized Input Token Embeddings for Neural Sequence Modeling", ICLR 2020
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.adaptive import AdaptiveInput
from phmrun.layers.hgt import HGT, Connection
from phmrun.layers.linear import Linear, on_device

CHUNK = 16_384
"""Tokens embedded at a time when the whole table is computed."""

HGT_SETTINGS = ("max_groups", "schedule", "shared", "shuffle", "activation", "multiple_of")
"""Arguments of :class:`HGT` that :class:`DeFINE` hands on."""


class _Watched(NamedTuple):
    """A parameter that a table was computed from: where it stands, and in what state it was."""

    place: dict[str, nn.Parameter | None]
    name: str
    parameter: nn.Parameter
    version: int


def _has_changed(watched: _Watched) -> bool:
    """Whether a parameter was replaced, or changed in place."""
    place, name, parameter, version = watched
    return place[name] is not parameter or _version(parameter) != version


def _version(parameter: nn.Parameter) -> int:
    """How often a parameter was changed in place; one made in inference mode does not count it."""
    return 0 if parameter.is_inference() else parameter._version


class DeFINE(nn.Module):
    """Map a token to n numbers, expand them to k by an :class:`HGT`, reduce them to m.

    In evaluation without gradients the embeddings of the whole vocabulary are computed once and looked up, until a
    parameter changes or training goes on.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector (m); that of the expansion where there is no last map.
        width: Size of the vector that a token is mapped to (n).
        expansion: Width at the end of the expansion (k).
        depth: Number of group transforms (N).
        device: Where the parameters live.
        dtype: Their type.
        mapping: The module that maps tokens to n numbers; one table of such vectors unless given.
        reduce: Whether a last map leads to m.
        connection: See :class:`HGT`; "plain" is the paper's HGT embedding. With "mixer" and "concat" the last map sees
            the n numbers as well.
        norm: Whether a layer norm follows each transform and the last map: an option of ours, the paper has none.
        bias: Whether transforms and the last map have biases.
        cached: Whether evaluation keeps the table of all embeddings.
        structure: Name of the structure of all matrices.
        **options: Further arguments of :class:`HGT`, and options of the structure.

    Raises:
        PhmrunError: Sizes, groups and structures that do not go together.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        width: int,
        expansion: int,
        depth: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        mapping: nn.Module | None = None,
        reduce: bool = True,
        connection: Connection = "mixer",
        norm: bool = False,
        bias: bool = True,
        cached: bool = True,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.cached = cached
        settings = {name: options.pop(name) for name in HGT_SETTINGS if name in options}
        with on_device(device):
            if mapping is None:
                mapping = AdaptiveInput(num_embeddings, width, (), structure=structure, **options)
            self.mapping = mapping
            self.expand = HGT(
                width,
                expansion,
                depth,
                connection=connection,
                norm=norm,
                bias=bias,
                structure=structure,
                **settings,
                **options,
            )
            reduced = self.expand.out_features + (width if connection in ("mixer", "concat") else 0)
            self.reduce = Linear(reduced, embedding_dim, bias, structure=structure, **options) if reduce else None
            self.norm = nn.LayerNorm(embedding_dim) if reduce and norm else nn.Identity()
        if not reduce:
            self.embedding_dim = self.expand.out_features
        self.reset_parameters()
        if dtype is not None:
            self.to(dtype)
        self._table: Tensor | None = None
        self._table_of: list[_Watched] = []

    def reset_parameters(self, std: float | None = None) -> None:
        """Entries of the embeddings with standard deviation ``std``, 1/√m unless given, where a last norm can do it.

        The maps keep ``nn.Linear``'s initialisation, and the mapping its own.
        """
        if isinstance(self.norm, nn.LayerNorm):
            nn.init.constant_(self.norm.weight, self.embedding_dim**-0.5 if std is None else std)

    def forward(self, tokens: Tensor) -> Tensor:
        """``[…]`` of token numbers ``-> […, embedding_dim]``."""
        if self.cached and not self.training and not torch.is_grad_enabled():
            return F.embedding(tokens, self._current_table())
        distinct, places = tokens.unique(return_inverse=True)  # running text repeats itself
        return F.embedding(places, self.embed(distinct))

    def embed(self, tokens: Tensor) -> Tensor:
        """Computed anew: ``[tokens] -> [tokens, embedding_dim]``."""
        inputs = self.mapping(tokens)
        hidden = self.expand(inputs)
        if self.reduce is None:
            return hidden
        if self.expand.connection in ("mixer", "concat"):
            hidden = torch.cat([hidden, inputs], 1)
        return self.norm(self.reduce(hidden))

    @property
    def weight(self) -> Tensor:
        """The table of all embeddings ``[num_embeddings, embedding_dim]``."""
        device = next(self.parameters()).device
        return torch.cat([self.embed(part) for part in torch.arange(self.num_embeddings, device=device).split(CHUNK)])

    def plain(self) -> nn.Embedding:
        """The table as an ``nn.Embedding``."""
        with torch.no_grad():
            return nn.Embedding.from_pretrained(self.weight)

    def train(self, mode: bool = True) -> "DeFINE":
        """Training mode, which drops the table, or evaluation mode."""
        self._table = None
        return super().train(mode)

    def _current_table(self) -> Tensor:
        """The table, computed if there is none for these parameters in this state."""
        if self._table is None or any(map(_has_changed, self._table_of)):
            with torch.autocast(next(self.parameters()).device.type, enabled=False):
                self._table = self.weight
            self._table_of = [
                _Watched(module._parameters, name, parameter, _version(parameter))
                for module in self.modules()
                for name, parameter in module._parameters.items()
                if parameter is not None
            ]
        return self._table

    def _apply(self, fn: Any, recurse: bool = True) -> "DeFINE":
        """A move to another device or type leaves the table behind."""
        self._table = None
        return super()._apply(fn, recurse)
