"""Decoding a Transformer one target token at a time, with cached keys and values.

Every hypothesis of a sentence writes the keys and values of its newest token into a slot of its own, and slots never
move. When the beam is reordered, only a small table is: which slots each hypothesis descends from. Attention looks at
all slots of the sentence through that mask, so that no cache is copied at any step.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.layers import Linear, MultiheadAttention, for_inference
from phmrun.layers.linear import Application
from phmrun.models.transformer import DecoderLayer, Transformer, padding_mask

GROWTH = 64


@dataclass
class DecoderState:
    """What decoding remembers for ``batch`` sentences.

    Attributes:
        position: Target tokens read so far.
        used: Slots filled in ``keys`` and ``values``, over all hypotheses.
        keys: Per layer ``[batch, heads, slots, head_width]``.
        values: Likewise.
        ancestors: ``[batch, 1, beam, used]``: 0 where a hypothesis descends from a slot, else -inf; ``None`` while
            every sentence has had one hypothesis only.
        memory_keys: Per layer ``[batch, heads, source, head_width]``.
        memory_values: Likewise.
        memory_mask: ``[batch, 1, 1, source]``: 0 at tokens, -inf at padding; ``None`` without padding.
    """

    position: int
    used: int
    keys: list[Tensor]
    values: list[Tensor]
    ancestors: Tensor | None
    memory_keys: list[Tensor]
    memory_values: list[Tensor]
    memory_mask: Tensor | None


class IncrementalTransformer(nn.Module):
    """A Transformer laid out for inference; what beam search drives.

    Args:
        transformer: The trained network; it is copied, not changed.
        pad: The padding token.
        application: How the decoder and the output map apply their weights: "dense" builds every W once, "factored"
            reads the factors, which is faster where a step has few tokens (batch × beam). The encoder, which sees
            whole sentences, is always dense.
    """

    def __init__(self, transformer: Transformer, pad: int, application: Application = "dense") -> None:
        super().__init__()
        self.cross = nn.ModuleList(
            CrossProjections(cast(MultiheadAttention, layer.cross.block), application)
            for layer in cast(list[DecoderLayer], transformer.decoder)
        )
        self.network = for_inference(transformer, "dense", decoder=application, output=application)
        self.pad = pad
        self.application = application

    def start(self, source: Tensor) -> DecoderState:
        """Encodes ``source [batch, source]`` and projects it once for every layer's attention to it."""
        mask = padding_mask(source, self.pad)
        memory = self.network.encode(source, mask)
        memory_keys, memory_values = [], []
        for cross in cast(list[CrossProjections], self.cross):
            key, value = cross.project_memory(memory)
            memory_keys.append(key)
            memory_values.append(value)
        additive = None if mask is None else additive_mask(mask, memory.dtype)
        return DecoderState(0, 0, [], [], None, memory_keys, memory_values, additive)

    def step(self, tokens: Tensor, state: DecoderState) -> Tensor:
        """Reads one more token of every hypothesis.

        Args:
            tokens: ``[batch, beam]``.
            state: Changed in place.

        Returns:
            Logits of the next token, ``[batch, beam, vocabulary]``.
        """
        network = self.network
        vectors = network.target_embedding(tokens) * network.width**0.5
        hidden = vectors + network.positions(state.position + 1)[state.position]
        self._open_slots(state, hidden)
        for number, layer in enumerate(self._layers()):
            hidden = self._layer(layer, number, hidden, state)
        state.position += 1
        return cast(Tensor, network.output(network.decoder_norm(hidden)))

    def reorder(self, state: DecoderState, beams: Tensor) -> DecoderState:
        """Makes each sentence's hypotheses descend from ``beams [batch, beam]``, numbers within the sentence."""
        if state.ancestors is not None:
            index = beams[:, None, :, None].expand(-1, -1, -1, state.used)
            state.ancestors = state.ancestors.gather(2, index)
        return state

    def select(self, state: DecoderState, sentences: Tensor) -> DecoderState:
        """Keeps only ``sentences [kept]`` of the batch."""
        for tensors in (state.keys, state.values, state.memory_keys, state.memory_values):
            tensors[:] = [tensor.index_select(0, sentences) for tensor in tensors]
        if state.ancestors is not None:
            state.ancestors = state.ancestors.index_select(0, sentences)
        if state.memory_mask is not None:
            state.memory_mask = state.memory_mask.index_select(0, sentences)
        return state

    def _layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.network.decoder))

    def _layer(self, layer: DecoderLayer, number: int, hidden: Tensor, state: DecoderState) -> Tensor:
        """One decoder layer on ``hidden [batch, beam, width]``."""
        attention = cast(MultiheadAttention, layer.attention.block)
        query, key, value = attention.queries_keys_values(layer.attention.enter(hidden), None)
        past = slice(state.used - hidden.shape[1], state.used)
        state.keys[number][:, :, past] = key
        state.values[number][:, :, past] = value
        context = F.scaled_dot_product_attention(
            query, state.keys[number][:, :, : state.used], state.values[number][:, :, : state.used], state.ancestors
        )
        hidden = layer.attention.leave(hidden, attention.output(context.transpose(1, 2).flatten(2)))
        cross = cast(MultiheadAttention, layer.cross.block)
        query = cast(CrossProjections, self.cross[number]).project_query(layer.cross.enter(hidden))
        context = F.scaled_dot_product_attention(
            query, state.memory_keys[number], state.memory_values[number], state.memory_mask
        )
        hidden = layer.cross.leave(hidden, cross.output(context.transpose(1, 2).flatten(2)))
        return cast(Tensor, layer.feedforward(hidden))

    def _open_slots(self, state: DecoderState, hidden: Tensor) -> None:
        """Makes room for one slot per hypothesis, and lets each hypothesis see its own."""
        batch, beam, _ = hidden.shape
        if not state.keys:
            shape = [(batch, keys.shape[1], GROWTH, keys.shape[3]) for keys in state.memory_keys]
            state.keys = [hidden.new_zeros(size) for size in shape]
            state.values = [hidden.new_zeros(size) for size in shape]
        while state.used + beam > state.keys[0].shape[2]:
            for tensors in (state.keys, state.values):
                tensors[:] = [torch.cat([tensor, torch.zeros_like(tensor)], dim=2) for tensor in tensors]
        if state.ancestors is None and beam > 1:
            state.ancestors = hidden.new_zeros(batch, 1, beam, state.used)
        if state.ancestors is not None:
            own = hidden.new_full((beam, beam), float("-inf")).fill_diagonal_(0.0)
            state.ancestors = torch.cat([state.ancestors, own.expand(batch, 1, beam, beam)], dim=3)
        state.used += beam


class CrossProjections(nn.Module):
    """The input maps of attention to the source, split by when they are used: once per sentence, or at every step.

    Args:
        attention: The attention block of a trained decoder layer; it is copied, not changed.
        application: How the queries' map is applied; keys and values, of whole sentences, are always dense.
    """

    def __init__(self, attention: MultiheadAttention, application: Application) -> None:
        super().__init__()
        self.heads = attention.num_heads
        self.inner = attention.inner_dim
        dense = [for_inference(cast(Linear, project)) for project in attention.project]
        weight = torch.cat([linear.weight for linear in dense]).split([self.inner, 2 * self.inner])
        bias = None if dense[0].bias is None else torch.cat([cast(Tensor, linear.bias) for linear in dense])
        biases = (None, None) if bias is None else bias.split([self.inner, 2 * self.inner])
        self.memory = plain_linear(weight[1], biases[1])
        first = cast(Linear, attention.project[0])
        # A joint map's factors give keys and values too, which are dropped: it pays while they are smaller than W_q.
        factors = sum(parameter.numel() for parameter in first.structure.parameters())
        smaller = application == "factored" and factors < weight[0].numel()
        self.query = for_inference(first, application) if smaller else plain_linear(weight[0], biases[0])

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of the encoded source, each ``[batch, heads, source, head_width]``."""
        key, value = self.memory(memory).chunk(2, dim=-1)
        return self._split(key).contiguous(), self._split(value).contiguous()

    def project_query(self, hidden: Tensor) -> Tensor:
        """Queries of the newest tokens, ``[batch, heads, beam, head_width]``."""
        return self._split(self.query(hidden)[..., : self.inner])

    def _split(self, vectors: Tensor) -> Tensor:
        return vectors.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def plain_linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """``nn.Linear`` over copies of ``weight [out, in]`` and ``bias [out]``."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None, device="meta")
    linear.weight = nn.Parameter(weight.detach().clone(), requires_grad=False)
    if bias is not None:
        linear.bias = nn.Parameter(bias.detach().clone(), requires_grad=False)
    return linear


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where ``mask`` is true, -inf elsewhere."""
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, float("-inf"))
