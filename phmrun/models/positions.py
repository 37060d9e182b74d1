"""Positions: sinusoidal vectors (Vaswani et al. 2017, section 3.5), relative buckets (Raffel et al. 2020, 2.1)."""

import math

import torch
from torch import Tensor, nn


class SinusoidalPositions(nn.Module):
    """sin and cos of position / 10000^(i / (width/2 - 1)), sines before cosines, as in tensor2tensor.

    Args:
        width: Size of a position vector; even.
        length: Positions computed ahead; longer inputs extend the table.
        paper: 10000^(i / (width/2)) instead, as the paper has it; still sines before cosines.
    """

    table: Tensor

    def __init__(self, width: int, length: int = 512, *, paper: bool = False) -> None:
        super().__init__()
        self.width = width
        self.paper = paper
        self.register_buffer("table", sinusoids(length, width, paper=paper), persistent=False)

    def forward(self, length: int) -> Tensor:
        """The first ``length`` position vectors, ``[length, width]``."""
        if length > self.table.shape[0]:
            self.table = sinusoids(2 * length, self.width, paper=self.paper).to(self.table)
        return self.table[:length]


def sinusoids(length: int, width: int, *, paper: bool = False) -> Tensor:
    """Position vectors ``[length, width]``, computed in double precision; see :class:`SinusoidalPositions`."""
    if torch.get_default_device().type == "meta":  # torch would load its compiler to compute the shapes
        return torch.empty(length, 2 * (width // 2))
    last = width // 2 if paper else max(width // 2 - 1, 1)
    rates = torch.exp(torch.arange(width // 2, dtype=torch.float64) * (-math.log(10000.0) / last))
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1).to(torch.get_default_dtype())


class RelativePositions(nn.Module):
    """A number added to the attention score of each pair of positions, by head and by bucket of their distance.

    Half of the buckets are single distances, the other half widen logarithmically up to ``furthest``, beyond which all
    distances share one. Where attention looks both ways, half of all buckets are for keys after the query.

    Args:
        heads: Attention heads.
        both_ways: Whether keys may stand after the query (encoder) or not (decoder).
        buckets: Number of buckets.
        furthest: Distance from which on there is no further bucket.
    """

    def __init__(self, heads: int, *, both_ways: bool, buckets: int = 32, furthest: int = 128) -> None:
        super().__init__()
        self.both_ways = both_ways
        self.buckets = buckets
        self.furthest = furthest
        self.table = nn.Parameter(torch.empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """All zero: every distance counts the same until it is learnt otherwise."""
        nn.init.zeros_(self.table)

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Positions ``[length]`` and ``[memory_length]`` ``-> [1, heads, length, memory_length]``."""
        bucket = self.bucket_of(keys[None, :] - queries[:, None])
        return self.table[bucket].permute(2, 0, 1).unsqueeze(0)

    def within(self, length: int) -> Tensor:
        """The same for a sequence that attends to itself, -inf where it may not look."""
        positions = torch.arange(length, device=self.table.device)
        scores: Tensor = self(positions, positions)
        if self.both_ways:
            return scores
        future = torch.ones(length, length, dtype=torch.bool, device=scores.device).triu(1)
        return scores.masked_fill(future, float("-inf"))

    def bucket_of(self, offset: Tensor) -> Tensor:
        """The bucket of each ``offset``, the key's position minus the query's."""
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
