"""Positions of tokens in a Transformer: sinusoidal vectors and relative biases."""

import math

import torch
from torch import Tensor, nn

from phmrun.errors import PhmrunError


class SinusoidalPositions(nn.Module):
    """Sinusoidal positions: sin and cos of position / 10000^(i / (width/2 - 1)), as in tensor2tensor.

    All sines come before all cosines.

    Args:
        width: Size of a position vector; even.
        length: Number of precomputed positions; longer inputs extend the table.
        paper: Use 10000^(i / (width/2)), as in section 3.5 of the paper.

    Raises:
        PhmrunError: (exit 2) The width is odd.
    """

    table: Tensor

    def __init__(self, width: int, length: int = 512, *, paper: bool = False) -> None:
        super().__init__()
        if width % 2:
            raise PhmrunError(f"the width {width} is odd", where="model.width", hint="Take an even one.")
        self.width = width
        self.paper = paper
        self.register_buffer("table", sinusoids(length, width, paper=paper), persistent=False)

    def forward(self, length: int, first: int = 0) -> Tensor:
        """Return the vectors of the positions ``first`` to ``length - 1``, ``[length - first, width]``.

        The table is replaced by one of twice this length if it is shorter. An exported graph has no table: it computes
        the vectors, for inputs of any length.
        """
        if torch.compiler.is_compiling():
            return sinusoids(length, self.width, first=first, paper=self.paper).to(self.table)
        if length > self.table.shape[0]:
            self.table = sinusoids(2 * length, self.width, paper=self.paper).to(self.table)
        return self.table[first:length]


def sinusoids(length: int, width: int, *, first: int = 0, paper: bool = False) -> Tensor:
    """Compute the vectors of the positions ``first`` to ``length - 1``, ``[length - first, width]``.

    They are computed in double precision and have the default type; see :class:`SinusoidalPositions`. An odd width
    loses one feature. On the meta device only the shape is computed.
    """
    if torch.get_default_device().type == "meta":  # computing shapes would import torch's compiler
        return torch.empty(length - first, 2 * (width // 2))
    last = width // 2 if paper else max(width // 2 - 1, 1)
    rates = torch.exp(torch.arange(width // 2, dtype=torch.float64) * (-math.log(10000.0) / last))
    angles = torch.arange(first, length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())


class RelativePositions(nn.Module):
    """Relative position bias of attention scores, by head and distance bucket (Raffel et al. 2020, section 2.1).

    Half of the buckets are single distances. The other half widens logarithmically up to ``furthest``; all larger
    distances share the last bucket. Bidirectional attention uses half of all buckets for keys after the query.

    Args:
        heads: Number of attention heads.
        both_ways: True for keys on both sides of the query (encoder), False for keys up to the query (decoder).
        buckets: Number of buckets.
        furthest: Distance from which on all keys share the last bucket.
    """

    def __init__(self, heads: int, *, both_ways: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.buckets = buckets
        self.furthest = furthest
        self.table = nn.Parameter(torch.zeros(buckets, heads))  # distance has no effect at first

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the biases of each query's position to each key's.

        Args:
            queries: Positions of queries, ``[length]``.
            keys: Positions of keys, ``[memory_length]``.

        Returns:
            ``[1, heads, length, memory_length]``.
        """
        bucket = self.bucket_of(keys[None, :] - queries[:, None])
        return self.table[bucket].permute(2, 0, 1).unsqueeze(0)

    def within(self, length: int) -> Tensor:
        """Return the biases of self-attention, ``[1, heads, length, length]``.

        They are -inf for future keys unless ``both_ways``.
        """
        positions = torch.arange(length, device=self.table.device)
        scores: Tensor = self(positions, positions)
        if self.both_ways:
            return scores
        future = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(future, float("-inf"))

    def bucket_of(self, offset: Tensor) -> Tensor:
        """Return the bucket of each ``offset``, the key's position minus the query's, in the same shape.

        With ``both_ways``, keys after the query have the second half of all buckets, others the first half. Otherwise
        keys before the query have all buckets, and keys after it the bucket of distance 0. Half of a direction's
        buckets have a single distance each. The others widen logarithmically up to ``furthest``; the last has all
        beyond.
        """
        buckets = self.buckets
        if self.both_ways:
            buckets //= 2
            first = (offset > 0) * buckets
            distance = offset.abs()
        else:
            first = torch.zeros_like(offset)
            distance = (-offset).clamp(min=0)
        single = buckets // 2
        share = (distance.clamp(min=1) / single).log() / math.log(self.furthest / single)
        wide = (single + (share * (buckets - single)).long()).clamp(max=buckets - 1)
        return first + torch.where(distance < single, distance, wide)
