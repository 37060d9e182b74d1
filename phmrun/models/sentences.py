"""Sentences of different lengths as one batch."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phmrun.text.vocabulary import EOS, PAD


class Sentences(NamedTuple):
    """A batch of sentences, padded at their ends.

    Attributes:
        tokens: ``[batch, length]``.
        lengths: Tokens of each, ``[batch]``.
        mask: ``[batch, 1, 1, length]``, true at tokens; ``None`` where nothing is padded.
    """

    tokens: Tensor
    lengths: Tensor
    mask: Tensor | None = None

    def to(self, device: torch.device | str) -> "Sentences":
        """The same on another device."""
        mask = None if self.mask is None else self.mask.to(device)
        return Sentences(self.tokens.to(device), self.lengths.to(device), mask)


def batch_of(rows: Sequence[NDArray[Any]]) -> Sentences:
    """Token ids as a batch, each sentence with the end token, so that none is empty."""
    lengths = np.array([len(row) + 1 for row in rows], dtype=np.int64)
    tokens = np.full((len(rows), lengths.max()), PAD, dtype=np.int64)
    for number, row in enumerate(rows):
        tokens[number, : len(row)] = row
        tokens[number, len(row)] = EOS
    mask = None
    if lengths.min() < lengths.max():
        mask = torch.from_numpy(np.arange(tokens.shape[1]) < lengths[:, None])[:, None, None, :]
    return Sentences(torch.from_numpy(tokens), torch.from_numpy(lengths), mask)
