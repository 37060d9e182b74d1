"""An output map that shares the words' own vectors with an embedding of more than one matrix."""

from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers.adaptive import AdaptiveInput
from phmrun.layers.define import DeFINE
from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear


class TiedOutput(nn.Module):
    """Logits W Q h + b of a vocabulary, W ``[words, width]`` the words' own vectors; Q where h is of another width.

    Args:
        in_features: Size of a hidden vector.
        words: Whose tables and projections W is made of.
        bias: Whether there is a ``b [words]``.
        **structure: Structure of Q and its options.
    """

    def __init__(self, in_features: int, words: AdaptiveInput, bias: bool = False, **structure: Any) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = words.num_embeddings
        self.words = words
        same = in_features == words.embedding_dim
        self.project = None if same else Linear(in_features, words.embedding_dim, bias=False, **structure)
        self.bias = nn.Parameter(torch.zeros(words.num_embeddings)) if bias else None

    @property
    def weight(self) -> Tensor:
        """W ``[words, width]``."""
        return self.words.weight

    def reduced(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Vectors and a matrix whose product, plus b, is the output."""
        inner = inputs if self.project is None else self.project(inputs)
        table, projection = self.words.tables[0], self.words.projections[0]
        if len(self.words.tables) > 1 or isinstance(projection, nn.Identity):
            return inner, self.words.weight
        return F.linear(inner, cast(Tensor, projection.weight).t()), cast(Tensor, table.weight)

    def forward(self, inputs: Tensor) -> Tensor:
        """``[…, in_features] -> […, words]``."""
        return F.linear(*self.reduced(inputs), self.bias)

    def plain(self) -> nn.Sequential:
        """Plain linear maps, one after the other, with the same outputs: W is built once."""
        maps: list[nn.Module] = [] if self.project is None else [self.project]
        table, projection = self.words.tables[0], self.words.projections[0]
        weight = cast(Tensor, table.weight)
        if len(self.words.tables) > 1:
            weight = self.words.weight
        elif not isinstance(projection, nn.Identity):
            maps.append(_linear(cast(Tensor, projection.weight).t()))
        return nn.Sequential(*maps, _linear(weight, self.bias))


def _linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """``nn.Linear`` of a given W, made on the meta device so that no weights are drawn."""
    plain = nn.Linear(weight.shape[1], weight.shape[0], bias is not None, device="meta")
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None:
            setattr(plain, name, nn.Parameter(value.detach().contiguous(), requires_grad=False))
    return plain


def tied_output(in_features: int, embedding: nn.Module, bias: bool = False, **structure: Any) -> Linear | TiedOutput:
    """The output map that shares with ``embedding`` what it can: its structure, or its words' own vectors.

    Args:
        in_features: Size of a hidden vector.
        embedding: From :func:`phmrun.layers.embedding.build_embedding`.
        bias: Whether there is a bias.
        **structure: Structure of the maps that the output has of its own, and its options.
    """
    if isinstance(embedding, Embedding):
        return Linear(in_features, embedding.num_embeddings, bias, structure=embedding.structure)
    words = embedding.mapping if isinstance(embedding, DeFINE) else embedding
    return TiedOutput(in_features, cast(AdaptiveInput, words), bias, **structure)
