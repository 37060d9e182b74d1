"""Transformer-XL (Dai et al. 2019): attention to the hidden vectors of the previous text.

Legend: ``batch`` texts, ``length`` new positions, ``memory`` positions before them, ``all`` = memory + length.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.attention import attend
from phmrun.kernels.dropout import dropout
from phmrun.layers import FeedForward, Linear
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.network import Structures
from phmrun.models.positions import sinusoids
from phmrun.tasks.lm.config import LanguageModelOptions
from phmrun.tasks.lm.language_model import Reading, State, build_word_tables


class RelativeAttention(nn.Module):
    """Attention softmax((q + u)ᵀ k + (q + v)ᵀ R r_distance) over positions and memory.

    Section 3.3, terms a–d; scaled by 1/√head_width.

    Args:
        width: Width of inputs and outputs.
        heads: Number of heads.
        head_width: Width of a head's queries, keys and values.
        dropout: Share of attention weights dropped in training.
        structure: Structure of the maps; ``options`` are its options.
    """

    def __init__(
        self, width: int, heads: int, head_width: int, dropout: float, *, structure: str = "dense", **options: Any
    ) -> None:
        super().__init__()
        inner = heads * head_width
        self.heads, self.dropout = heads, dropout
        self.project = Linear(width, 3 * inner, bias=False, structure=structure, **options)
        self.distance = Linear(width, inner, bias=False, structure=structure, **options)
        self.output = Linear(inner, width, bias=False, structure=structure, **options)

    def forward(
        self, inputs: Tensor, memory: Tensor, distances: Tensor, bias: "SharedBias", reach: int | None = None
    ) -> Tensor:
        """Attend from ``inputs`` to ``memory`` and to earlier inputs.

        An input also attends to itself; later inputs are masked.

        Args:
            inputs: ``[batch, length, width]``.
            memory: ``[batch, memory, width]``.
            distances: Vectors of the distances all - 1 … 0, ``[all, width]``.
            bias: u and v.
            reach: Maximum number of positions to attend to, the own one included; all if not given.

        Returns:
            ``[batch, length, width]``.
        """
        length = inputs.shape[1]
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.project(torch.cat([memory, inputs], dim=1)).chunk(3, dim=-1)
        )
        query = query[:, :, -length:]
        relative = self.distance(distances).unflatten(-1, (self.heads, -1)).transpose(0, 1)  # [heads, all, head_width]
        scale = query.shape[-1] ** -0.5
        scores = shifted((query + bias.v[:, None]) @ relative.transpose(1, 2) * scale)
        every = torch.ones(length, key.shape[2], dtype=torch.bool, device=key.device)
        scores = scores.masked_fill(every.triu(memory.shape[1] + 1), float("-inf"))
        if reach is not None:
            scores = scores.masked_fill(every.tril(memory.shape[1] - reach), float("-inf"))
        dropout = self.dropout if self.training else 0.0
        context = attend(query + bias.u[:, None], key, value, scores, dropout)
        return self.output(context.transpose(1, 2).flatten(2))


def shifted(scores: Tensor) -> Tensor:
    """Turn scores by distance into scores by position.

    Row i moves left by length - 1 - i. ``[batch, heads, length, all]``. Entries that move in from the right are future
    positions and must be masked.
    """
    *leading, length, total = scores.shape
    padded = F.pad(scores, (1, 0)).reshape(*leading, total + 1, length)
    return padded[..., 1:, :].reshape(scores.shape)


class SharedBias(nn.Module):
    """Biases u and v, ``[heads, head_width]``, shared by all layers."""

    def __init__(self, heads: int, head_width: int) -> None:
        super().__init__()
        self.u = nn.Parameter(torch.zeros(heads, head_width))
        self.v = nn.Parameter(torch.zeros(heads, head_width))


class XLLayer(nn.Module):
    """Relative attention and feed-forward block, each with residual connection and post-norm."""

    def __init__(self, attention: RelativeAttention, feedforward: FeedForward, width: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.feedforward = attention, feedforward
        self.attention_norm, self.feedforward_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = dropout

    def forward(
        self, inputs: Tensor, memory: Tensor, distances: Tensor, bias: SharedBias, reach: int | None = None
    ) -> Tensor:
        """Apply attention, then the feed-forward block.

        Each has a residual connection, a norm behind it and dropout in training. Shapes: ``[batch, length, width] ->
        [batch, length, width]``; arguments are those of :class:`RelativeAttention`.
        """
        hidden = self.attention_norm(inputs + self._drop(self.attention(inputs, memory, distances, bias, reach)))
        return cast(Tensor, self.feedforward_norm(hidden + self._drop(self.feedforward(hidden))))

    def _drop(self, vectors: Tensor) -> Tensor:
        """Apply dropout in training."""
        return dropout(vectors, self.dropout, self.training)


class TransformerXL(nn.Module):
    """Word vectors, causal layers with memory, and an adaptive softmax tied to the word vectors.

    Two attributes change how a trained network reads, as the original's options do. ``clamp_len`` clamps larger
    distances to it. ``same_length`` limits each position to the nearest ``memory`` positions, itself included, instead
    of the whole memory and its own segment.

    Args:
        options: Section of the configuration.
        sizes: Entries of the vocabulary, in order of falling frequency.
        structures: Options of ``layer``, all maps in the layers; of ``embedding``, the word vectors (also factorized
            ones); of ``output``, the output's own maps.

    Raises:
        PhmrunError: Sizes and structures do not match.
    """

    options: ClassVar[type[LanguageModelOptions]] = LanguageModelOptions

    def __init__(self, options: LanguageModelOptions, sizes: Sequence[int], structures: Structures) -> None:
        super().__init__()
        width, heads, head_width, dropout = options.width, options.heads, options.head_width, options.dropout
        self.width, self.memory, self.dropout = width, options.memory, dropout
        self.clamp_len: int | None = None
        self.same_length = False
        self.embedding, self.define, output, _ = build_word_tables(options, sizes[0], structures)
        layer = structures.get("layer", {})
        self.context = nn.ModuleList(
            XLLayer(
                RelativeAttention(width, heads, head_width, options.attention_dropout, **layer),
                FeedForward(width, options.inner, dropout, **layer),
                width,
                dropout,
            )
            for _ in range(options.layers)
        )
        self.context_bias = SharedBias(heads, head_width)
        self.output = output

    def forward(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Read ``tokens [batch, length]`` after ``state``; ``None``: at the beginning.

        The state is each layer's last inputs, ``[batch, memory, width]``, fewer at the beginning of a text. Word
        vectors are multiplied by √width. Attention reaches the state and earlier words, within ``clamp_len`` and
        ``same_length``. The returned state is detached.
        """
        words = self.embedding(tokens) if self.define is None else self.define(tokens)
        hidden = self._drop(words * math.sqrt(self.width))
        memories = [hidden[:, :0]] * len(self.context) if state is None else state
        total = memories[0].shape[1] + tokens.shape[1]
        farthest = total - 1 if self.clamp_len is None else min(total - 1, self.clamp_len)
        places = torch.arange(total - 1, -1, -1, device=hidden.device).clamp(max=farthest)
        vectors = sinusoids(farthest + 1, self.width, paper=True).to(hidden)  # rates of 10000^(-2i/width)
        distances = self._drop(vectors[places])
        reach = max(1, self.memory) if self.same_length else None
        kept = []
        for layer, memory in zip(self.context, memories, strict=True):
            kept.append(torch.cat([memory, hidden], dim=1)[:, max(0, total - self.memory) :].detach())
            hidden = layer(hidden, memory, distances, self.context_bias, reach)
        return Reading(self._drop(hidden), hidden, tuple(kept))

    def loss(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Return the loss summed over ``targets``, in nats."""
        return cast(CrossEntropy, self.output(hidden, targets))

    def _drop(self, vectors: Tensor) -> Tensor:
        """Apply dropout in training."""
        return dropout(vectors, self.dropout, self.training)
