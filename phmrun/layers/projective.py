"""Projective embeddings: a narrow table, then one linear map to the width of the model."""

from typing import Any

import torch
from torch import Tensor, nn

from phmrun.layers.embedding import Embedding
from phmrun.layers.linear import Linear


class ProjectiveEmbedding(nn.Module):
    """Row v of E Pᵀ, E ``[num_embeddings, width]``, P ``[embedding_dim, width]`` (Dai et al. 2019).

    Tables per cluster of frequency, and an output layer that shares them, are in :mod:`phmrun.layers.adaptive`.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector.
        width: Size of a row of the table.
        device: Where the parameters live.
        dtype: Their type.
        structure: Name of the structure of table and projection.
        **options: Its options.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        width: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        structure: str = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.table = Embedding(num_embeddings, width, None, device, dtype, structure=structure, **options)
        self.project = Linear(width, embedding_dim, False, device, dtype, structure=structure, **options)
        self.reset_parameters()

    def reset_parameters(self, std: float = 1.0) -> None:
        """Entries of E Pᵀ with standard deviation ``std``: P keeps the variance of what it maps."""
        self.table.reset_parameters(std)
        self.project.reset_parameters(self.table.embedding_dim**-0.5)

    @property
    def weight(self) -> Tensor:
        """The dense table E Pᵀ ``[num_embeddings, embedding_dim]``."""
        return self.table.weight @ self.project.weight.t()

    def forward(self, tokens: Tensor) -> Tensor:
        """``[…]`` of token numbers ``-> […, embedding_dim]``."""
        return self.project(self.table(tokens))
