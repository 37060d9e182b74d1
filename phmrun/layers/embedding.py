"""Table lookup over any structure: a drop-in for ``torch.nn.Embedding``."""

from typing import Any

import torch
from torch import Tensor, nn

from phmrun.layers.linear import on_device
from phmrun.layers.structure import Structure, build_structure, build_weight, full_precision


class Embedding(nn.Module):
    """Row v of W ``[num_embeddings, embedding_dim]`` for token v, looked up without building W where that is cheaper.

    Args:
        num_embeddings: Size of the vocabulary.
        embedding_dim: Size of an embedding vector.
        padding_idx: A token whose vector is always zero.
        device: Where the parameters live.
        dtype: Their type.
        structure: A registered name, or a structure object to share (tied embeddings).
        **options: Options of the structure, such as ``n=8``.

    Raises:
        PhmrunError: Unknown structure or option, or sizes that do not fit.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        structure: str | Structure = "dense",
        **options: Any,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        with on_device(device):
            self.structure = build_structure(structure, num_embeddings, embedding_dim, **options)
        if not isinstance(structure, Structure):
            self.reset_parameters()
        if dtype is not None:
            self.to(dtype)

    def reset_parameters(self, std: float = 1.0) -> None:
        """Entries of W with standard deviation ``std``; 1 as ``nn.Embedding``."""
        self.structure.reset_parameters(std)

    @property
    def weight(self) -> Tensor:
        """The dense table W ``[num_embeddings, embedding_dim]``."""
        return build_weight(self.structure)

    def forward(self, tokens: Tensor) -> Tensor:
        """``[…]`` of token numbers ``-> […, embedding_dim]``."""
        with full_precision(self.structure):
            vectors = self.structure.rows(tokens)
        if self.padding_idx is None:
            return vectors
        return vectors.masked_fill((tokens == self.padding_idx).unsqueeze(-1), 0.0)

    def extra_repr(self) -> str:
        """As ``nn.Embedding``."""
        return f"{self.num_embeddings}, {self.embedding_dim}"
