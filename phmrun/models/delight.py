"""DeLighT, the deep and light-weight Transformer: deep group linear maps before attention.

Formula:        block: x + Attention(T(x)), then x + FFN(x), each sum followed by a norm.
                T, the DeLighT transformation, maps d numbers to d/2 by N group linear maps between two linear maps.
                Widths increase up to w·d over ⌈N/2⌉ maps, then decrease. Attention has one head of width d/2; the
                inner width of the FFN is d/4
Block b of B:   N = N_min + (N_max - N_min)·b/(B - 1), rounded down;  w_b = w + (N_max/N_min - 1)·b/(B - 1)
Source:         Mehta et al., "DeLighT: Deep and Light-weight Transformer", ICLR 2021, sections 3.1 and 3.2.
                Details from the authors' code: groups 2, 4, … up to g_max, the next power of two from d/32 on; widths
                rounded up to multiples of 8 and of the groups; a norm over the features of a group; swish
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.errors import PhmrunError
from phmrun.kernels.dropout import dropout
from phmrun.layers import AdaptiveInput, FeedForward, Linear, MultiheadAttention
from phmrun.layers.adaptive import TiedOutput
from phmrun.layers.define import CHUNK
from phmrun.layers.define_released import GroupMap, chained
from phmrun.layers.linear import glorot_std
from phmrun.layers.network import Structures
from phmrun.models.options import TransformerOptions
from phmrun.models.positions import SinusoidalPositions
from phmrun.models.transformer import DecoderLayer, EncoderDecoder, EncoderLayer, Sublayer, check_tie
from phmrun.registry import EMBEDDINGS

REDUCTION = 4
"""Ratio of the outer to the inner width of the light feed-forward blocks."""
LEAST_GROUP = 32
"""Features of the model's width in each of the most groups, before their number becomes a power of two."""


def group_maps(start: int, widest: float, end: int, depth: int, max_groups: int) -> list[GroupMap]:
    """Return the N group linear maps of a transformation.

    N is ``depth``. Widths run from ``start`` to ``widest`` in the middle and back; the last map has ``end`` outputs.
    Groups are 2, 4, … up to ``max_groups`` in the middle, then fewer again.
    """
    middle = math.ceil(depth / 2)
    groups = [min(2 ** (step + 1), max_groups) for step in range(middle)]
    widths = [int(round(start + (widest - start) * step / max(middle - 1, 1), 6)) for step in range(middle)]
    groups += groups[::-1][depth % 2 :]
    widths += widths[::-1][depth % 2 :]
    return chained(start, widths[:-1], groups, end)


def block_scales(blocks: int, depths: tuple[int, int], width_multiplier: float) -> list[tuple[int, float]]:
    """Return N and w of each block.

    N grows evenly from the first to the last block, rounded down. w grows evenly by N_last / N_first - 1 in all, to
    three decimals. A single block has the values of the first.

    Args:
        blocks: Number of blocks (B).
        depths: N of the first and of the last block.
        width_multiplier: w of the first block.
    """
    least, most = depths
    shares = [block / max(blocks - 1, 1) for block in range(blocks)]
    return [
        (int(round(least + (most - least) * share, 6)), round(width_multiplier + (most / least - 1) * share, 3))
        for share in shares
    ]


class DeLighTTransformation(nn.Module):
    """DeLighT transformation: a linear map, ``depth`` group linear maps, a linear map.

    Each group linear map shuffles its outputs and, except the first, also reads the output of the first linear map.

    Args:
        in_features: Size of an input vector.
        inner: Size after the first map.
        out_features: Size of an output vector.
        widest: Width of the widest group linear map, before rounding.
        depth: Group linear maps (N).
        max_groups: g_max.
        dropout: Share of the features after each map dropped in training.
        **layer: Structure of the two linear maps and its options; the others have the structure ``group-shuffle``.
    """

    def __init__(
        self,
        in_features: int,
        inner: int,
        out_features: int,
        *,
        widest: float,
        depth: int,
        max_groups: int,
        dropout: float = 0.0,
        **layer: Any,
    ) -> None:
        super().__init__()
        self.dropout = dropout
        self.plan = group_maps(inner, widest, out_features, depth, max_groups)
        self.enter = Linear(in_features, inner, **layer)
        self.maps = nn.ModuleList(
            Linear(sizes.inputs, sizes.outputs, structure="group-shuffle", groups=sizes.groups) for sizes in self.plan
        )
        self.leave = Linear(inner + out_features, out_features, **layer)
        self.enter_norm = nn.LayerNorm(inner)
        self.norms = nn.ModuleList(nn.LayerNorm(sizes.outputs // sizes.groups) for sizes in self.plan)
        self.leave_norm = nn.LayerNorm(out_features)
        for linear in (self.enter, *self.maps, self.leave):
            linear.reset_parameters(glorot_std(linear.in_features, linear.out_features), zero_bias=True)

    def forward(self, inputs: Tensor) -> Tensor:
        """Apply the transformation: ``[…, in_features] -> […, out_features]``.

        Each group map after the first reads, group by group, the features of the first linear map and the outputs
        before it. The last linear map reads both, too. A layer norm, swish and dropout follow each map.
        """
        start = self._activated(self.enter_norm(self.enter(inputs)))
        hidden = start
        for number, (linear, norm, sizes) in enumerate(zip(self.maps, self.norms, self.plan, strict=True)):
            if number:
                parts = (start.unflatten(-1, (sizes.groups, -1)), hidden.unflatten(-1, (sizes.groups, -1)))
                hidden = torch.cat(parts, -1).flatten(-2)
            outputs = linear(hidden).unflatten(-1, (sizes.groups, -1))
            hidden = self._activated(norm(outputs).flatten(-2))
        return self._activated(self.leave_norm(self.leave(torch.cat([start, hidden], -1))))

    def _activated(self, features: Tensor) -> Tensor:
        """Return swish of the features, with dropout in training."""
        return dropout(F.silu(features), self.dropout, self.training)


class DeLighTEmbedding(nn.Module):
    """Embedding by narrow word vectors, scaled by √(their size) and transformed to the model's width.

    Args:
        words: Table of word vectors; embeddings of both sides and the output may share it.
        transform: Transformation to the model's width.
        dropout: Share of a word vector dropped in training.
    """

    def __init__(self, words: AdaptiveInput, transform: DeLighTTransformation, dropout: float) -> None:
        super().__init__()
        self.num_embeddings, self.embedding_dim = words.num_embeddings, transform.leave.out_features
        self.words, self.transform, self.dropout = words, transform, dropout

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the embeddings of token numbers, ``[…] -> […, width]``.

        Word vectors are scaled by the root of their width and transformed; in training dropout applies.
        """
        vectors = self.words(tokens) * math.sqrt(self.words.embedding_dim)
        return self.transform(dropout(vectors, self.dropout, self.training))

    @property
    def weight(self) -> Tensor:
        """Table of all embeddings ``[num_embeddings, width]``, computed at each access.

        In training mode dropout applies.
        """
        tokens = torch.arange(self.num_embeddings, device=next(self.parameters()).device)
        return torch.cat([self(part) for part in tokens.split(CHUNK)])


class DeLighT(EncoderDecoder):
    """DeLighT encoder–decoder with embeddings and output map.

    Each side has its own transformation of the word vectors.

    Args:
        options: Model section of the configuration; options of the Transformer only are ignored.
        sizes: Sizes of the source and the target vocabulary.
        structures: Structure and options of ``layer`` (all linear maps in the blocks except group linear maps),
            ``embedding`` (the tables of word vectors) and ``output`` (the map from the width to word vectors).

    Raises:
        PhmrunError: Sizes, structures and tying do not fit together.
    """

    options: ClassVar[type[TransformerOptions]] = TransformerOptions

    def __init__(self, options: TransformerOptions, sizes: Sequence[int], structures: Structures) -> None:
        super().__init__()
        source_size, target_size = sizes
        layer, embedding, output = (structures.get(place, {}) for place in ("layer", "embedding", "output"))
        width, word_width, dropout = options.width, options.word_width, options.dropout
        depths, norm = (options.min_depth, options.max_depth), options.norm
        check_tie(options.tie, source_size, target_size)
        _check_options(width, embedding)
        # Scale 1: the embeddings scale the word vectors themselves.
        self.width, self.scale, self.dropout = width, 1.0, dropout
        half, multiplier = width // 2, options.width_multiplier
        # g_max is the smallest power of two that is at least width / 32, and at least 1.
        most_groups = 1 << max(math.ceil(width / LEAST_GROUP) - 1, 0).bit_length()
        common: dict[str, Any] = {"max_groups": most_groups, "dropout": options.transformation_dropout}
        heads: dict[str, Any] = {"inner_dim": half, "output_dim": width, "dropout": options.attention_dropout}
        inside: dict[str, Any] = {"activation": "swish", "dropout": options.activation_dropout}
        sublayer = partial(Sublayer, width=width, norm=norm, dropout=dropout)
        attention: Callable[..., MultiheadAttention] = partial(MultiheadAttention, num_heads=1, **heads, **layer)
        feedforward: Callable[..., FeedForward] = partial(FeedForward, width, width // REDUCTION, **inside, **layer)
        transformation: Callable[..., DeLighTTransformation] = partial(DeLighTTransformation, inner=half, **common)
        table: Callable[..., AdaptiveInput] = partial(AdaptiveInput, embedding_dim=word_width, cutoffs=(), **embedding)

        def self_attention(depth: int, wide: float) -> Sublayer:
            """Build self-attention after a transformation with ``depth`` group linear maps."""
            before = transformation(width, out_features=half, depth=depth, widest=wide * width, **layer)
            return sublayer(attention(half), before=before)

        def embed(words: AdaptiveInput) -> DeLighTEmbedding:
            """Build an embedding that transforms word vectors to the model's width."""
            plan: dict[str, Any] = {"depth": depths[0], "widest": multiplier * word_width}
            return DeLighTEmbedding(words, transformation(word_width, out_features=width, **plan), dropout)

        self.encoder = nn.ModuleList(
            EncoderLayer(self_attention(*scales), sublayer(feedforward()))
            for scales in block_scales(options.encoder_layers, depths, multiplier)
        )
        self.decoder = nn.ModuleList(
            DecoderLayer(self_attention(*scales), sublayer(attention(width)), sublayer(feedforward()))
            for scales in block_scales(options.decoder_layers, depths, multiplier)
        )
        self.encoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.decoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()
        self.positions = SinusoidalPositions(width, paper=options.positions == "sinusoidal-vaswani")
        self.encoder_positions = self.decoder_positions = None
        source = table(source_size)
        target = source if options.tie == "all" else table(target_size)
        self.source_embedding, self.target_embedding = embed(source), embed(target)
        words = table(target_size) if options.tie == "none" else target
        self.output = TiedOutput(width, words, options.output_bias, **output)


def _check_options(width: int, embedding: Mapping[str, Any]) -> None:
    """Check embedding and width of DeLighT.

    Raises:
        PhmrunError: (exit 2) The embedding is one of its own instead of a matrix's structure, or the width is not
            divisible by 32.
    """
    structure = embedding.get("structure", "dense")
    if structure in EMBEDDINGS:
        what = f"DeLighT has an embedding of its own: {structure!r} is another, not a structure of its table of words"
        raise PhmrunError(what, where="embedding.structure", hint="`phmrun layers` lists the structures.")
    if width % LEAST_GROUP:
        what = f"a width of {width} does not divide into groups of {LEAST_GROUP}"
        raise PhmrunError(what, where="model.width", hint=f"The next one that does is {width + -width % LEAST_GROUP}.")
