"""Encoder–decoder Transformer (Vaswani et al. 2017) over any structure, pre- or post-norm.

Shapes: ``batch`` sentences, ``source``/``target`` positions, ``width`` of the residual stream.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from phmrun.errors import PhmrunError
from phmrun.kernels.dropout import dropout
from phmrun.layers import FeedForward, Linear, MultiheadAttention, build_embedding, tied_output
from phmrun.layers.adapters import adapters_of
from phmrun.layers.adaptive import TiedOutput
from phmrun.layers.inference import table_of
from phmrun.layers.network import DENSE, Structures
from phmrun.layers.structures.guided import Guided
from phmrun.models.options import TransformerOptions
from phmrun.models.positions import RelativePositions, SinusoidalPositions
from phmrun.registry import EMBEDDINGS

Norm = Literal["pre", "post"]
Normalization = Literal["layer", "rms"]
Tie = Literal["all", "decoder", "embeddings", "none"]
ONE_TABLE = ("all", "embeddings")
"""Values of ``tie`` with one table for source and target tokens."""


class Sublayer(nn.Module):
    """Block with a residual connection: x + f(norm(x)) ("pre") or norm(x + f(x)) ("post").

    Args:
        block: f, an attention or a feed-forward block.
        width: Size of the residual stream.
        norm: Position of the norm, "pre" or "post".
        dropout: Share of the block's output dropped in training.
        normalization: "layer": mean and variance; "rms": the root mean square only, without a bias.
        before: Module applied to the block's inputs, after a "pre" norm.
    """

    def __init__(
        self,
        block: nn.Module,
        width: int,
        norm: Norm,
        dropout: float,
        normalization: Normalization = "layer",
        before: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.before = before
        self.block = block
        self.norm = build_norm(normalization, width)
        self.pre = norm == "pre"
        self.dropout = dropout

    def enter(self, inputs: Tensor) -> Tensor:
        """Return the block's inputs.

        The norm is applied if "pre", then ``before`` if there is one.
        """
        seen = self.norm(inputs) if self.pre else inputs
        return seen if self.before is None else self.before(seen)

    def leave(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """Return inputs plus dropped-out outputs, normalized if "post"."""
        total = inputs + dropout(outputs, self.dropout, self.training)
        return total if self.pre else self.norm(total)

    def forward(self, inputs: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Apply the sublayer to ``[batch, length, width]``.

        Further arguments go to the block.
        """
        return self.leave(inputs, self.block(self.enter(inputs), *args, **kwargs))


class EncoderLayer(nn.Module):
    """Encoder layer: self-attention and a feed-forward block."""

    def __init__(self, attention: Sublayer, feedforward: Sublayer) -> None:
        super().__init__()
        self.attention = attention
        self.feedforward = feedforward

    def forward(self, inputs: Tensor, mask: Tensor | None) -> Tensor:
        """Apply self-attention, then the feed-forward block.

        Args:
            inputs: ``[batch, source, width]``, as the outputs.
            mask: ``[batch, 1, 1, source]``, True at tokens; or scores to add, ``[batch, heads, source, source]``;
                ``None``: no mask.
        """
        return self.feedforward(self.attention(inputs, mask=mask))


class DecoderLayer(nn.Module):
    """Decoder layer: causal self-attention, attention to the source, a feed-forward block."""

    def __init__(self, attention: Sublayer, cross: Sublayer, feedforward: Sublayer) -> None:
        super().__init__()
        self.attention = attention
        self.cross = cross
        self.feedforward = feedforward

    def forward(self, inputs: Tensor, memory: Tensor, mask: Tensor | None, positions: Tensor | None = None) -> Tensor:
        """Apply self-attention, attention to the source, feed-forward block.

        Args:
            inputs: ``[batch, target, width]``, as the outputs.
            memory: Encoded source ``[batch, source, width]``.
            mask: Mask of the source ``[batch, 1, 1, source]``, True at tokens; ``None``: no padding.
            positions: Scores to add in self-attention, ``[1, heads, target, target]``, -inf in the future; ``None``:
                causal attention without scores.
        """
        hidden = self.attention(inputs, mask=positions, causal=positions is None)
        return self.feedforward(self.cross(hidden, memory, mask=mask))


class EncoderDecoder(nn.Module):
    """Base class of encoder–decoder networks.

    Attributes:
        encoder: Modules of type :class:`EncoderLayer`.
        decoder: Modules of type :class:`DecoderLayer`.
        encoder_norm: Norm after the last encoder layer; the identity in post-norm networks.
        decoder_norm: Norm after the last decoder layer; the identity in post-norm networks.
        positions: Position vectors added to the embeddings, or None.
        encoder_positions: Relative position bias of the encoder, or None.
        decoder_positions: Relative position bias of the decoder, or None.
        source_embedding: Embedding of source tokens.
        target_embedding: Embedding of target tokens; may be the same module.
        output: Map to the logits of target tokens.
        width: Size of a hidden vector.
        scale: Factor of the embeddings.
        dropout: Dropout rate of the embeddings.
    """

    encoder: nn.ModuleList
    decoder: nn.ModuleList
    encoder_norm: nn.Module
    decoder_norm: nn.Module
    positions: SinusoidalPositions | None
    encoder_positions: RelativePositions | None
    decoder_positions: RelativePositions | None
    source_embedding: nn.Module
    target_embedding: nn.Module
    output: Linear | TiedOutput
    width: int
    scale: float
    dropout: float

    def encode(self, source: Tensor, mask: Tensor | None) -> Tensor:
        """Encode tokens ``source [batch, source]``.

        ``mask`` is ``[batch, 1, 1, source]``, True at tokens; ``None``: no padding.

        Returns:
            ``[batch, source, width]``.
        """
        hidden = self.embed(self.source_embedding, source)
        if self.encoder_positions is not None:
            scores = self.encoder_positions.within(source.shape[1])
            mask = scores if mask is None else scores.masked_fill(~mask, float("-inf"))
        for layer in self.encoder:
            hidden = layer(hidden, mask)
        return self.encoder_norm(hidden)

    def decode(self, target: Tensor, memory: Tensor, mask: Tensor | None) -> Tensor:
        """Return the hidden vectors of target tokens, ``[batch, target, width]``.

        The output map is not applied.

        Args:
            target: Tokens read so far, ``[batch, target]``; none sees later ones.
            memory: Encoded source ``[batch, source, width]``.
            mask: Mask of the source ``[batch, 1, 1, source]``, True at tokens; ``None``: no padding.
        """
        hidden = self.embed(self.target_embedding, target)
        relative = self.decoder_positions
        positions = None if relative is None else relative.within(target.shape[1])
        for layer in self.decoder:
            hidden = layer(hidden, memory, mask, positions)
        return self.decoder_norm(hidden)

    def embed(self, embedding: nn.Module, tokens: Tensor) -> Tensor:
        """Return scaled embeddings plus positions (if any).

        In training, dropout applies. Shapes: ``[batch, length] -> [batch, length, width]``.
        """
        vectors = embedding(tokens) * self.scale
        if self.positions is not None:
            vectors = vectors + self.positions(tokens.shape[1])
        return dropout(vectors, self.dropout, self.training)

    def forward(self, source: Tensor, mask: Tensor | None, target: Tensor) -> Tensor:
        """Return hidden vectors ``[batch, target, width]`` of target tokens.

        Each predicts the token after it.
        """
        return self.decode(target, self.encode(source, mask), mask)


class Transformer(EncoderDecoder):
    """Transformer encoder–decoder with embeddings and output map.

    Args:
        options: Model section of the configuration.
        sizes: Sizes of the source and the target vocabulary.
        structures: Structure and options by part, such as ``{"layer": {"structure": "phm", "n": 8}}``: ``layer`` (all
            maps in the blocks), ``embedding``, and ``output`` (the untied matrices of the output map).

    Raises:
        PhmrunError: Sizes, structures and tying do not fit together.
    """

    options: ClassVar[type[TransformerOptions]] = TransformerOptions

    def __init__(self, options: TransformerOptions, sizes: Sequence[int], structures: Structures) -> None:
        super().__init__()
        source_size, target_size = sizes
        layer, embedding, output = (structures.get(place, {}) for place in ("layer", "embedding", "output"))
        check_tie(options.tie, source_size, target_size)
        check_tied_output(options.tie, embedding, output)
        width, dropout, norm = options.width, options.dropout, options.norm
        self.width = width
        self.scale = math.sqrt(width)
        self.dropout = dropout
        contract = contraction(layer, options.contract_n)

        def sublayer(block: nn.Module) -> Sublayer:
            """Build a residual block of the model's width."""
            return Sublayer(block, width, norm, dropout, options.normalization)

        def attention() -> Sublayer:
            """Build a residual block of attention."""
            inner = options.heads * options.head_width if options.head_width else width
            maps: dict[str, Any] = {"maps": options.attention_maps, "inner_dim": options.upsample * inner}
            dropped, bias = options.attention_dropout, options.bias
            return sublayer(MultiheadAttention(width, options.heads, dropped, bias, **maps, **layer))

        def feedforward() -> Sublayer:
            """Build a residual feed-forward block."""
            inner = options.upsample * options.feedforward
            rest = (inner, options.activation_dropout, options.feedforward_bias)
            return sublayer(FeedForward(width, *rest, activation=options.activation, contract=contract, **layer))

        self.encoder = nn.ModuleList(EncoderLayer(attention(), feedforward()) for _ in range(options.encoder_layers))
        self.decoder = nn.ModuleList(
            DecoderLayer(attention(), attention(), feedforward()) for _ in range(options.decoder_layers)
        )
        self.encoder_norm = build_norm(options.normalization, width) if norm == "pre" else nn.Identity()
        self.decoder_norm = build_norm(options.normalization, width) if norm == "pre" else nn.Identity()
        relative, paper = options.positions == "relative", options.positions == "sinusoidal-vaswani"
        self.positions = None if relative else SinusoidalPositions(width, paper=paper)
        self.encoder_positions = RelativePositions(options.heads, both_ways=True) if relative else None
        self.decoder_positions = RelativePositions(options.heads, both_ways=False) if relative else None
        # Built after the blocks: the order of random draws must not change for a seed.
        self.source_embedding = build_embedding(source_size, width, **embedding)
        self.target_embedding = (
            self.source_embedding if options.tie in ONE_TABLE else build_embedding(target_size, width, **embedding)
        )
        self.tied = options.tie in ("all", "decoder")
        self.output = (
            tied_output(width, self.target_embedding, options.output_bias, **output)
            if self.tied
            else Linear(width, target_size, options.output_bias, **output)
        )
        # Embeddings and an untied output map have variance 1/width.
        drawn = [self.source_embedding, self.target_embedding, *([] if self.tied else [self.output])]
        for module in dict.fromkeys(drawn):
            module.reset_parameters(width**-0.5)  # type: ignore[operator]
        if options.start == "glorot":
            updates = {parameter for update in adapters_of(self) for parameter in update.parameters()}
            for parameter in self.parameters():
                if parameter.dim() > 1 and parameter not in updates:
                    nn.init.xavier_uniform_(parameter)
            for module in self.modules():
                if isinstance(module, Guided):
                    module.copy_to_dense()


def with_tables(network: EncoderDecoder) -> EncoderDecoder:
    """Replace a network's embeddings by tables of all vectors.

    It works in place, and returns the network. A shared embedding stays shared; an ``nn.Embedding`` stays as it is.
    """
    tied = network.target_embedding is network.source_embedding
    network.source_embedding = table_of(network.source_embedding)
    network.target_embedding = network.source_embedding if tied else table_of(network.target_embedding)
    return network


def build_norm(normalization: Normalization, width: int) -> nn.Module:
    """Build the layer norm, or root-mean-square norm, of a width.

    The latter has T5's ε of 1e-6.
    """
    return nn.LayerNorm(width) if normalization == "layer" else nn.RMSNorm(width, eps=1e-6)


def padding_mask(tokens: Tensor, pad: int) -> Tensor | None:
    """Return a mask of ``tokens [batch, length]``, ``[batch, 1, 1, length]``, True at tokens.

    It is False at ``pad``. The result is ``None`` if no sentence has padding.
    """
    mask = tokens.ne(pad)
    return None if bool(mask.all()) else mask[:, None, None, :]


def check_tie(tie: Tie, source_size: int, target_size: int) -> None:
    """Check that vocabularies with one table are of equal size.

    They have one table with ``tie`` "all" or "embeddings"; other ties pass.

    Raises:
        PhmrunError: (exit 2) The sizes differ.
    """
    if tie in ONE_TABLE and source_size != target_size:
        sizes = f"{source_size} and {target_size} entries"
        what = f"tie = {tie} needs one vocabulary for both sides, but they have {sizes}"
        hint = "Set data.vocabulary.joint=true, or --set model.tie=decoder."
        raise PhmrunError(what, where="model.tie", valid=("decoder", "none"), hint=hint)


def check_tied_output(tie: Tie, embedding: Mapping[str, Any], output: Mapping[str, Any]) -> None:
    """Check the structure of a tied output map.

    With ``tie`` "all" or "decoder", ``output`` must be empty, dense, or equal to ``embedding``. Other ties pass, and so
    do embeddings with several matrices.

    Raises:
        PhmrunError: (exit 2) The structures differ.
    """
    structure = embedding.get("structure", "dense")
    if tie not in ("all", "decoder") or structure in EMBEDDINGS or output in ({}, DENSE, embedding):
        return
    what = f"the output map is tied to the embedding, whose structure is {structure!r}"
    hint = "Leave --output out, since it follows the embedding; or --set model.tie=none."
    raise PhmrunError(what, where="output.structure", hint=hint)


def contraction(layer: Mapping[str, Any], n: int | None) -> Mapping[str, Any] | None:
    """Return ``layer`` with order ``n`` for the feed-forward blocks' second map.

    The result is ``None`` if ``n`` is.

    Raises:
        PhmrunError: (exit 2) The layer's structure has no order n.
    """
    if n is None:
        return None
    if "n" not in layer:
        structure = layer.get("structure", "dense")
        raise PhmrunError(f"the layer {structure!r} has no order n that could differ", where="model.contract_n")
    return {**layer, "n": n}
