"""Token-by-token decoding of a Transformer, with cached keys and values.

Each hypothesis writes the keys and values of its newest token into a slot, and slots never move. A reordered beam only
changes a mask of the slots that each hypothesis descends from. Attention reads all slots of the sentence through this
mask, so no step copies the cache.

A step is limited by the number of calls, not by arithmetic. It therefore works on ``rows`` (batch × beam) of vectors,
and on functions instead of modules (``DirectLayer``).
"""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.kernels.attention import attend
from phmrun.kernels.packed import FewRows, Map, bfloat16_map
from phmrun.kernels.switch import ONEDNN, switched
from phmrun.layers import FeedForward, Linear, MultiheadAttention, folded, for_inference
from phmrun.layers.inference import Choice, PackedLinear
from phmrun.layers.linear import ACTIVATIONS, plain_linear
from phmrun.layers.structure import PackedFactors
from phmrun.models.transformer import DecoderLayer, EncoderDecoder, Sublayer, padding_mask, with_tables

GROWTH = 64

Direct = Callable[[nn.Module], Map]
"""Function that turns a map or norm into a plain function of ``[rows, …]``."""


@dataclass
class DecoderState:
    """State of decoding for ``batch`` sentences.

    Attributes:
        slots: Keys and values, ``[layers, 2, batch, heads, slots, head_width]``.
        memory_keys: Keys of the source per layer, ``[batch, heads, source, head_width]``.
        memory_values: Values of the source per layer, same shape.
        memory_mask: ``[batch, 1, 1, source]``: 0 at tokens, -inf at padding; None without padding.
        position: Number of target tokens read.
        positions: Target position of each used slot.
        ancestors: ``[batch, 1, beam, used]``: 0 if a hypothesis descends from a slot, otherwise -inf; None while the
            beam has always been 1.
        rows: Number of rows that ``layers`` and ``output`` are for.
        layers: Decoder layers as functions.
        output: Output map as a function.
    """

    slots: Tensor
    memory_keys: list[Tensor]
    memory_values: list[Tensor]
    memory_mask: Tensor | None
    position: int = 0
    positions: list[int] = field(default_factory=list)
    ancestors: Tensor | None = None
    rows: int = 0
    layers: list["DirectLayer"] = field(default_factory=list)
    output: Map | None = None


class IncrementalTransformer(nn.Module):
    """Transformer for inference, with the interface of beam search.

    Args:
        transformer: Trained network; it is copied, not changed.
        pad: Padding token.
        application: Form of the decoder and the output map: "dense" builds W once, "factored" applies the factors,
            "by-size" those of large maps only. The last is fastest for few tokens per step (batch × beam).
        encoder: Form of the encoder, which reads whole sentences; "by-size" is for single sentences.
    """

    def __init__(
        self, transformer: EncoderDecoder, pad: int, application: Choice = "dense", encoder: Choice = "dense"
    ) -> None:
        super().__init__()
        self.cross = nn.ModuleList(
            CrossProjections(cast(MultiheadAttention, layer.cross.block), application)
            for layer in cast(list[DecoderLayer], transformer.decoder)
        )
        parts = {"encoder": encoder, "decoder": application, "output": application}
        self.network = with_tables(for_inference(transformer, "dense", **parts))
        for layer in self.network.decoder:
            attention = cast(MultiheadAttention, cast(DecoderLayer, layer).attention.block)
            plain = [project for project in attention.project if isinstance(project, nn.Linear)]
            if len(plain) == len(attention.project) > 1:  # dense queries, keys and values: one call instead of three
                attention.project = nn.ModuleList([joined(plain)])
        self.pad = pad
        self.measured_kernels = False
        """True if dense maps use packed weights where these were measured to be faster; see ``kernels/packed.py``."""
        self.in_bfloat16 = False
        """True if dense maps and the encoder compute in bfloat16; attention and norms of the decoder in float32."""
        self._few_rows: dict[nn.Module, Map | FewRows] = {}

    def start(self, source: Tensor) -> DecoderState:
        """Encode ``source [batch, source]``, and return the first state.

        The state has the keys and values of the source for all layers, and 64 empty slots.
        """
        mask = padding_mask(source, self.pad)
        with torch.autocast(source.device.type, torch.bfloat16) if self.in_bfloat16 else nullcontext():
            memory = self.network.encode(source, mask)
        memory = memory.to(cast(nn.Embedding, self.network.target_embedding).weight.dtype)
        memories = [cross.project_memory(memory) for cross in cast(list[CrossProjections], self.cross)]
        batch, heads, _, head_width = memories[0][0].shape
        return DecoderState(
            slots=memory.new_zeros(len(memories), 2, batch, heads, GROWTH, head_width),
            memory_keys=[keys for keys, _ in memories],
            memory_values=[values for _, values in memories],
            memory_mask=None if mask is None else memory.new_zeros(mask.shape).masked_fill_(~mask, float("-inf")),
        )

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Read the next token of every hypothesis.

        The state is updated in place: each hypothesis gets a slot, and ``position`` grows by 1. The number of slots
        doubles when they are full.

        Args:
            tokens: Newest tokens ``[batch, beam]``.
            state: State of decoding.

        Returns:
            Logits of the next token, ``[batch, beam, vocabulary]``.
        """
        network, (batch, beam) = self.network, tokens.shape
        if batch * beam != state.rows:
            self._prepare(state, batch * beam)
        vectors = network.target_embedding(tokens.reshape(-1)) * network.scale
        hidden = vectors if network.positions is None else vectors.add_(network.positions(state.position + 1)[-1])
        used = len(state.positions) + beam  # one more slot for each hypothesis
        while used > state.slots.shape[4]:
            state.slots = torch.cat([state.slots, torch.zeros_like(state.slots)], dim=4)
        if state.ancestors is None and beam > 1:
            state.ancestors = state.slots.new_zeros(batch, 1, beam, used - beam)
        if state.ancestors is not None:  # each hypothesis sees its new slot
            newest = state.slots.new_full((beam, beam), float("-inf")).fill_diagonal_(0.0)
            state.ancestors = torch.cat([state.ancestors, newest.expand(batch, 1, beam, beam)], dim=3)
        state.positions += [state.position] * beam
        mask = state.ancestors  # added to the scores of attention to the slots, [batch, heads, beam, used]
        if network.decoder_positions is not None:
            places = torch.tensor(state.positions, device=state.slots.device)
            scores: Tensor = network.decoder_positions(places[-1:], places)
            mask = scores if mask is None else scores + mask
        filled = state.slots[..., :used, :]
        mine = state.slots[..., used - beam : used, :].unbind(0)
        keys, values = filled[:, 0].unbind(0), filled[:, 1].unbind(0)
        for number, layer in enumerate(state.layers):
            hidden = layer.attend(hidden, mine[number], keys[number], values[number], mask)
            memory = state.memory_keys[number], state.memory_values[number]
            hidden = layer.attend_to_source(hidden, *memory, state.memory_mask)
            hidden = layer.transform(hidden)
        state.position += 1
        logits = cast(Map, state.output)(network.decoder_norm(hidden))
        return logits.view(batch, beam, -1)

    def reorder(self, state: DecoderState, beams: Tensor) -> DecoderState:
        """Replace each sentence's hypotheses by ``beams [batch, beam]``.

        It works in place, and returns the state. ``beams`` are numbers within the sentence. The cache is not copied;
        nothing changes while the beam is 1.
        """
        if state.ancestors is not None:
            index = beams[:, None, :, None].expand(-1, -1, -1, len(state.positions))
            state.ancestors = state.ancestors.gather(2, index)
        return state

    def select(self, state: DecoderState, sentences: Tensor) -> DecoderState:
        """Reduce the batch to the numbers in ``sentences [kept]``.

        It works in place, and returns the state.
        """
        for tensors in (state.memory_keys, state.memory_values):
            tensors[:] = [tensor.index_select(0, sentences) for tensor in tensors]
        state.slots = state.slots.index_select(2, sentences)
        if state.ancestors is not None:
            state.ancestors = state.ancestors.index_select(0, sentences)
        if state.memory_mask is not None:
            state.memory_mask = state.memory_mask.index_select(0, sentences)
        return state

    def _prepare(self, state: DecoderState, rows: int) -> None:
        """Set the state's functions for this number of rows, so that no step looks them up."""
        choose = partial(self._direct, rows=rows)
        pairs = zip(
            cast(list[DecoderLayer], self.network.decoder), cast(list[CrossProjections], self.cross), strict=True
        )
        state.layers = [DirectLayer(layer, cross, choose) for layer, cross in pairs]
        state.rows, state.output = rows, choose(self.network.output)

    def _direct(self, module: nn.Module, rows: int) -> Map:
        """Return a map of so many rows as a function.

        A dense one computes in bfloat16 with ``in_bfloat16``, otherwise by packed weights with ``measured_kernels``,
        both cached by module. Others see :func:`direct`.
        """
        if not (isinstance(module, nn.Linear) and (self.in_bfloat16 or self.measured_kernels)):
            return direct(module)
        if module not in self._few_rows:
            self._few_rows[module] = (bfloat16_map if self.in_bfloat16 else FewRows)(module.weight, module.bias)
        few = self._few_rows[module]
        return few.for_rows(rows) if isinstance(few, FewRows) else few

    def _apply(self, *arguments: Any, **options: Any) -> Self:
        """Convert the module as ``nn.Module`` does, and drop the kernels' copies of weights."""
        self._few_rows.clear()
        return super()._apply(*arguments, **options)


class DirectLayer:
    """Decoder layer as functions of ``hidden [rows, width]``, which may be overwritten.

    Args:
        layer: Layer of a network for inference.
        cross: Input maps of its attention to the source.
        direct: Function that converts its maps.
    """

    def __init__(self, layer: DecoderLayer, cross: "CrossProjections", direct: Direct) -> None:
        attention = cast(MultiheadAttention, layer.attention.block)
        feedforward = cast(FeedForward, layer.feedforward.block)
        self.enter, self.leave = _norms(layer.attention)
        maps = [direct(project) for project in attention.project]
        self.project: Map = maps[0]
        if len(maps) > 1:
            self.project = lambda inputs: torch.cat([project(inputs) for project in maps], dim=-1)
        self.output = direct(attention.output)
        self.enter_cross, self.leave_cross = _norms(layer.cross)
        query, inner = direct(cross.query), cross.inner
        # Factors of a joint map return keys and values too; those of the source were computed by start().
        self.query = query if cross.query.out_features == inner else lambda inputs: query(inputs)[:, :inner]
        self.cross_output = direct(cast(MultiheadAttention, layer.cross.block).output)
        self.enter_feedforward, self.leave_feedforward = _norms(layer.feedforward)
        self.expand = direct(feedforward.expand)
        self.contract = direct(feedforward.contract)
        self.gate: Map | None = None if feedforward.gate is None else direct(feedforward.gate)
        # Asking for the switch takes longer than attention from one position.
        self.scores = attend if switched() == ONEDNN else F.scaled_dot_product_attention
        self.activate: Map = torch.relu_ if feedforward.activation == "relu" else ACTIVATIONS[feedforward.activation]

    def attend(self, hidden: Tensor, mine: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to the target so far, with norm and residual connection.

        Return the hidden vectors ``[rows, width]``; ``hidden`` may be overwritten.

        Args:
            hidden: ``[rows, width]``.
            mine: Slots of the newest tokens, ``[2, batch, heads, beam, head_width]``; their keys and values are written
                in place.
            keys: All used slots, including the newest, ``[batch, heads, used, head_width]``.
            values: Same shape as ``keys``.
            mask: Added to the scores, broadcast to ``[batch, heads, beam, used]``; ``None``: nothing is added.
        """
        _, batch, heads, beam, head_width = mine.shape
        projected = self.project(self.enter(hidden)).view(batch, beam, 3, heads, head_width).permute(2, 0, 3, 1, 4)
        mine.copy_(projected[1:])
        context = self.scores(projected[0], keys, values, mask)
        return self.leave(self.output(context.transpose(1, 2).reshape(len(hidden), -1)).add_(hidden))

    def attend_to_source(self, hidden: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Attend to the source, with norm and residual connection.

        Return the hidden vectors ``[rows, width]``. Keys and values are ``[batch, heads, source, head_width]``;
        ``mask`` is added to the scores unless it is None.
        """
        batch, heads, _, head_width = keys.shape
        query = self.query(self.enter_cross(hidden)).view(batch, -1, heads, head_width).transpose(1, 2)
        context = self.scores(query, keys, values, mask)
        return self.leave_cross(self.cross_output(context.transpose(1, 2).reshape(len(hidden), -1)).add_(hidden))

    def transform(self, hidden: Tensor) -> Tensor:
        """Apply the feed-forward block: ``[rows, width] -> [rows, width]``.

        Norm and residual connection are included.
        """
        entered = self.enter_feedforward(hidden)
        inner = self.activate(self.expand(entered))
        inner = inner if self.gate is None else inner.mul_(self.gate(entered))
        return self.leave_feedforward(self.contract(inner).add_(hidden))


def direct(module: nn.Module) -> Map:
    """Return a map or norm as a plain function.

    It has no overhead of module calls. Modules other than linear or packed maps and layer norms are returned unchanged.
    """
    if isinstance(module, nn.Linear):
        weight, bias = module.weight, module.bias
        return lambda inputs: F.linear(inputs, weight, bias)
    if isinstance(module, nn.LayerNorm):
        shape, scale, shift, eps = module.normalized_shape, module.weight, module.bias, module.eps
        return lambda inputs: torch.layer_norm(inputs, shape, scale, shift, eps, False)
    if isinstance(module, PackedLinear):
        operator, offset = direct(module.operator), module.bias
        return operator if offset is None else lambda inputs: operator(inputs).add_(offset)
    if isinstance(module, PackedFactors):
        function, parts = module.function, tuple(module.factors)
        return lambda inputs: function(inputs, *parts).contiguous()
    return module


def _norms(sublayer: Sublayer) -> tuple[Map, Map]:
    """Return the functions before a block and after its residual connection.

    They are the norm and the identity for pre-norm, the identity and the norm for post-norm. The sublayer's ``before``
    (if any) is applied after the first of them.
    """

    def same(hidden: Tensor) -> Tensor:
        """Return the argument unchanged."""
        return hidden

    norm, before = direct(sublayer.norm), sublayer.before
    enter, leave = (norm, same) if sublayer.pre else (same, norm)
    return (enter if before is None else lambda inputs: before(enter(inputs))), leave


def joined(linears: list[nn.Linear]) -> nn.Linear:
    """Return a new ``nn.Linear`` with the concatenated outputs of several.

    Outputs are in the order of ``linears``; either all have a bias or none. It has none if they have none.
    """
    biases: list[Tensor] = [linear.bias for linear in linears if linear.bias is not None]
    return plain_linear(torch.cat([linear.weight for linear in linears]), torch.cat(biases) if biases else None)


class CrossProjections(nn.Module):
    """Input maps of attention to the source: keys and values once per sentence, queries at every step.

    Args:
        attention: Attention block of a trained decoder layer; it is copied, not changed.
        application: Form of the queries' map; the map of keys and values is always dense.
    """

    def __init__(self, attention: MultiheadAttention, application: Choice) -> None:
        super().__init__()
        self.heads = attention.num_heads
        self.inner = attention.inner_dim
        joint = joined([cast(nn.Linear, folded(project)) for project in attention.project])
        weight = joint.weight.split([self.inner, 2 * self.inner])
        biases = (None, None) if joint.bias is None else joint.bias.split([self.inner, 2 * self.inner])
        self.memory = plain_linear(weight[1], biases[1])
        first = attention.project[0]
        smaller = False  # an exported file's dense maps are plain modules
        if application != "dense" and isinstance(first, Linear):
            # Factors of a joint map also compute keys and values, which are dropped: only faster if smaller than W_q.
            smaller = sum(parameter.numel() for parameter in first.structure.parameters()) < weight[0].numel()
        self.query = for_inference(first, application) if smaller else plain_linear(weight[0], biases[0])

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Return the keys and the values of the encoded source, contiguous.

        Shapes: ``[batch, source, width]`` to ``[batch, heads, source, head_width]`` each.
        """
        both = self.memory(memory).chunk(2, dim=-1)
        keys, values = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2).contiguous() for part in both)
        return keys, values
