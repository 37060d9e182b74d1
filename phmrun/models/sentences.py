"""Padded batches of sentences, pooling to sentence vectors, and class scores over any structure."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.dropout import dropout
from phmrun.layers import Linear
from phmrun.registry import STRUCTURES
from phmrun.text.vocabulary import EOS, PAD


class Sentences(NamedTuple):
    """Batch of sentences, padded on the right.

    Attributes:
        tokens: Token numbers ``[batch, length]``.
        lengths: Tokens per sentence ``[batch]``, without padding.
        mask: ``[batch, 1, 1, length]``, True at tokens; None without padding.
    """

    tokens: Tensor
    lengths: Tensor
    mask: Tensor | None = None

    def to(self, device: torch.device | str) -> "Sentences":
        """Return the batch with its tensors on a device."""
        mask = None if self.mask is None else self.mask.to(device)
        return Sentences(self.tokens.to(device), self.lengths.to(device), mask)


Pooling = Literal["mean", "max", "last", "max-mean"]
"""Pooling of a sentence's vectors; "max-mean" concatenates both."""


def pooled(vectors: Tensor, lengths: Tensor, pooling: Pooling) -> Tensor:
    """Pool the vectors of each sentence to one vector.

    Args:
        vectors: ``[sentences, length, width]``.
        lengths: Tokens of each sentence, ``[sentences]``.
        pooling: Mean, maximum, last token, or maximum and mean concatenated.

    Returns:
        ``[sentences, width]``, or ``[sentences, 2 · width]`` for "max-mean".
    """
    inside = (torch.arange(vectors.shape[1], device=lengths.device) < lengths[:, None])[..., None]
    ways: dict[str, Callable[[], Tensor]] = {
        "max": lambda: vectors.masked_fill(~inside, float("-inf")).amax(1),
        "mean": lambda: (vectors * inside).sum(1) / lengths[:, None],
        "last": lambda: vectors[torch.arange(lengths.shape[0], device=lengths.device), lengths - 1],
    }
    return torch.cat([ways[way]() for way in pooling.split("-")], dim=1)


def batch_of(rows: Sequence[NDArray[Any]]) -> Sentences:
    """Build a padded batch of token ids, at least one row.

    An end token follows each sentence, then padding; lengths include the end token. The mask is ``None`` if all
    sentences have the same length.
    """
    lengths = np.array([len(row) + 1 for row in rows], dtype=np.int64)
    tokens = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
        tokens[number, len(row)] = EOS
    mask = None
    if lengths.min() < lengths.max():
        mask = torch.from_numpy(np.arange(tokens.shape[1]) < lengths[:, None])[:, None, None, :]
    return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths), mask)


class ClassScores(nn.Module):
    """Multilayer perceptron W · relu(W_m · … relu(W_1 x + b_1) … + b_m) + b for class scores.

    If a structure cannot build a matrix with ``classes`` rows, the last map has the next possible number of rows, and
    the additional outputs are discarded.

    Args:
        in_features: Size of an input vector.
        classes: Number of classes.
        hidden: Sizes of the hidden layers.
        dropout: Share of each map's inputs dropped in training.
        **layer: Structure of all maps, and its options.

    Raises:
        PhmrunError: Sizes and structure do not fit together.
    """

    def __init__(
        self, in_features: int, classes: int, hidden: Sequence[int] = (), dropout: float = 0.0, **layer: Any
    ) -> None:
        super().__init__()
        self.classes, self.dropout = classes, dropout
        sizes = [in_features, *hidden]
        sizes.append(buildable_rows(classes, sizes[-1], **layer))
        self.maps = nn.ModuleList(Linear(wide, narrow, **layer) for wide, narrow in itertools.pairwise(sizes))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the class scores (logits), ``[batch, in_features] -> [batch, classes]``.

        ReLU is between the maps, dropout before each, in training only. Further outputs of the last map are cut off.
        """
        hidden = inputs
        for number, linear in enumerate(self.maps):
            if number:
                hidden = F.relu(hidden)
            hidden = linear(dropout(hidden, self.dropout, self.training))
        return hidden[:, : self.classes]


def buildable_rows(rows: int, columns: int, structure: str = "dense", **options: Any) -> int:
    """Return the smallest number of rows that a structure can build.

    It is at least ``rows``. Numbers up to max(rows, columns) are tried; if none fits, ``rows`` is returned.
    """
    misfit = STRUCTURES.get(structure).misfit
    fitting = (more for more in range(rows, max(rows, columns) + 1) if misfit(more, columns, **options) is None)
    return next(fitting, rows)
