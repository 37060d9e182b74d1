"""Export graphs of a trained translator: the whole Transformer, and encoder and decoder step for a search."""

from collections.abc import Mapping
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.engine.module import ExportGraph, GraphFunction, random_tokens
from phmrun.layers import MultiheadAttention, folded
from phmrun.models.incremental import CrossProjections, IncrementalTransformer
from phmrun.models.transformer import DecoderLayer, EncoderDecoder, with_tables
from phmrun.text.vocabulary import BOS, EOS, PAD

TOKENS = {"pad": str(PAD), "bos": str(BOS), "eos": str(EOS)}


class NextTargetToken(GraphFunction):
    """Transformer as a function of source and target tokens.

    Targets start with the beginning token.
    """

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return the logits of the next tokens, ``[batch, target, vocabulary]``.

        Args:
            source: ``[batch, source]``.
            target: ``[batch, target]``.
        """
        mask = source.ne(PAD)[:, None, None, :]
        logits: Tensor = self.network.output(self.network(source, mask, target))
        return logits


class SearchPart(nn.Module):
    """Part of a search, with the network and the decoder layers' attention to the source."""

    def __init__(self, model: IncrementalTransformer) -> None:
        super().__init__()
        self.network = model.network
        self.cross = model.cross


class SourceEncoder(SearchPart):
    """Encoder, with the keys and values of each decoder layer's attention to the source."""

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Return keys and values of ``source [batch, source]``.

        Returns:
            Two tensors ``[layers, batch, heads, source, head_width]``.
        """
        memory = self.network.encode(source, source.ne(PAD)[:, None, None, :])
        pairs = [cast(CrossProjections, cross).project_memory(memory) for cross in self.cross]
        return torch.stack([keys for keys, _ in pairs]), torch.stack([values for _, values in pairs])


class DecoderStep(SearchPart):
    """Decoder step: the next target token of every hypothesis, with cached keys and values."""

    def forward(
        self,
        tokens: Tensor,
        source: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Read a token of every hypothesis.

        Args:
            tokens: Newest tokens ``[batch]``; in the first step the beginning token.
            source: ``[batch, source]``.
            memory_keys: Keys of the source, ``[layers, batch, heads, source, head_width]``.
            memory_values: Values of the source, same shape.
            past_keys: Keys of earlier tokens, ``[layers, batch, heads, past, head_width]``; past is 0 at first.
            past_values: Values of earlier tokens, same shape.

        Returns:
            Logits of the next token ``[batch, vocabulary]``, and keys and values of all tokens including this one.
        """
        network, past = self.network, past_keys.shape[3]
        hidden = network.target_embedding(tokens).unsqueeze(1) * network.scale
        if network.positions is not None:
            hidden = hidden + network.positions(past + 1, past)
        places = torch.arange(past + 1, device=tokens.device)
        relative = None if network.decoder_positions is None else network.decoder_positions(places[-1:], places)
        mask = source.ne(PAD)[:, None, None, :]
        # All state is passed in and out: a graph keeps none, and the caller may reorder the rows of a beam.
        all_keys, all_values = [], []
        for number, layer in enumerate(cast(list[DecoderLayer], list(network.decoder))):
            attention = cast(MultiheadAttention, layer.attention.block)
            query, key, value = attention.queries_keys_values(layer.attention.enter(hidden), None)
            keys, values = torch.cat([past_keys[number], key], 2), torch.cat([past_values[number], value], 2)
            hidden = layer.attention.leave(hidden, attended(attention, query, keys, values, relative))
            cross = cast(MultiheadAttention, layer.cross.block)
            query = cross.split(cast(CrossProjections, self.cross[number]).query(layer.cross.enter(hidden)))
            context = attended(cross, query, memory_keys[number], memory_values[number], mask)
            hidden = layer.feedforward(layer.cross.leave(hidden, context))
            all_keys.append(keys)
            all_values.append(values)
        logits: Tensor = network.output(network.decoder_norm(hidden))[:, 0]
        return logits, torch.stack(all_keys), torch.stack(all_values)


def attended(attention: MultiheadAttention, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Return the output of an attention block, ``[batch, length, width]``.

    Queries, keys and values are ``[batch, heads, …, head_width]``; ``mask`` of None hides nothing. It is scaled
    dot-product attention, then the block's output map on the joined heads.
    """
    context = F.scaled_dot_product_attention(query, keys, values, mask)
    outputs: Tensor = attention.output(context.transpose(1, 2).flatten(2))
    return outputs


def translation_graph(network: EncoderDecoder) -> ExportGraph:
    """Return the export graph from tokens to next-token logits.

    The exported network has folded structures and plain tables; its outputs are compared with the trained network's.
    Its parts are :func:`search_graphs`. The four examples are random with seed 1; the last row of each is padded.
    """
    plain = with_tables(folded(network))
    sizes = [cast(nn.Embedding, table).num_embeddings for table in (plain.source_embedding, plain.target_embedding)]
    generator = torch.Generator().manual_seed(1)
    examples = []
    for batch, length, target_length in ((2, 7, 5), (1, 5, 1), (3, 17, 9), (2, 8, 21)):
        source = random_tokens(generator, sizes[0], batch, length)
        # Each example has a padded row, so that the mask is traced too.
        source[-1, length // 2 + 1 :] = PAD
        examples.append((source, random_tokens(generator, sizes[1], batch, target_length)))
    return ExportGraph(
        plain,
        NextTargetToken(plain).eval(),
        NextTargetToken(network).eval(),
        inputs={"source": ("batch", "source_length"), "target": ("batch", "target_length")},
        outputs=["logits"],
        examples=examples,
        facts=TOKENS,
        parts=search_graphs(network, examples),
        trained=network,
    )


@torch.no_grad()
def search_graphs(network: EncoderDecoder, examples: list[tuple[Tensor, Tensor]]) -> Mapping[str, ExportGraph]:
    """Return the export graphs "encoder" and "decoder", a decoder step with a cache.

    The decoder step is compared with the trained network's logits for the whole target; its cache is not compared.
    ``examples`` are (source, target) tokens; each gives one encoder and one decoder example.
    """
    model = IncrementalTransformer(network, PAD).eval()
    encoder, decoder = SourceEncoder(model).eval(), DecoderStep(model).eval()
    steps = []
    for source, target in examples:
        memory = encoder(source)
        # Empty cache: the shape of the memory with length 0.
        past = memory[0][:, :, :, :0]
        cache = (past, past.clone())
        for token in target[:, :-1].unbind(1):
            cache = decoder(token, source, *memory, *cache)[1:]
        steps.append((target[:, -1], source, *memory, *cache))
    layers, _, heads, _, head_width = steps[0][2].shape
    memory_sizes = (layers, "batch", heads, "source_length", head_width)
    past_sizes = (layers, "batch", heads, "past_length", head_width)
    inputs = {
        "tokens": ("batch",),
        "source": ("batch", "source_length"),
        "memory_keys": memory_sizes,
        "memory_values": memory_sizes,
        "past_keys": past_sizes,
        "past_values": past_sizes,
    }

    def by_the_network(tokens: Tensor, source: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        """Return the trained network's logits for the whole target, then the step's cache."""
        outputs = decoder(tokens, source, *cache)
        target = next(target for of, target in examples if of is source)
        logits = NextTargetToken(network)(source, target)[:, -1]
        return logits, *outputs[1:]

    return {
        "encoder": ExportGraph(
            model.network,
            encoder,
            encoder,
            inputs={"source": ("batch", "source_length")},
            outputs=["memory_keys", "memory_values"],
            examples=[(source,) for source, _ in examples],
            facts=TOKENS,
        ),
        "decoder": ExportGraph(
            model.network,
            decoder,
            by_the_network,
            inputs=inputs,
            outputs=["logits", "keys", "values"],
            examples=steps,
            facts=TOKENS,
        ),
    }
