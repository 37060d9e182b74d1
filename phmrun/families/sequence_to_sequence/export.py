"""A trained translator handed to others: as export graphs, and to another engine, compared with it on its test set.

The Transformer is one graph as a function of both sides, and two that a search calls. What a converted model computes
is worth no trust until it has been compared, so the outputs of the two searches stand beside each other, line by line,
with what the trained network itself thinks of those that differ.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from phmrun.decoding.beam import length_penalty
from phmrun.engine.trained_model import TrainedModel
from phmrun.errors import PhmrunError, unknown
from phmrun.export.ctranslate2 import converted, library
from phmrun.export.graph import LONGEST, MOST, ExportGraph, random_tokens
from phmrun.families.sequence_to_sequence.predictor import Translator
from phmrun.files import cache_dir
from phmrun.layers import MultiheadAttention, folded
from phmrun.metrics import Score, bleu
from phmrun.models.incremental import CrossProjections, IncrementalTransformer
from phmrun.models.transformer import DecoderLayer, EncoderDecoder, padding_mask, with_tables
from phmrun.registry import TASKS
from phmrun.text.lines import read_parallel
from phmrun.text.vocabulary import BOS, EOS, PAD

TOKENS = {"pad": str(PAD), "bos": str(BOS), "eos": str(EOS)}


class NextTargetToken(nn.Module):
    """A Transformer as a function of two token tensors, the target beginning with the beginning token."""

    def __init__(self, network: EncoderDecoder) -> None:
        super().__init__()
        self.network = network

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """``[batch, source]``, ``[batch, target] -> [batch, target, vocabulary]``: logits of the next tokens."""
        mask = source.ne(PAD)[:, None, None, :]
        logits: Tensor = self.network.output(self.network(source, mask, target))
        return logits


class SourceEncoder(nn.Module):
    """What decoding needs of the sources: keys and values of each decoder layer's attention to them."""

    def __init__(self, model: IncrementalTransformer) -> None:
        super().__init__()
        self.network = model.network
        self.cross = model.cross

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """``[batch, source] -> `` keys and values, each ``[layers, batch, heads, source, head_width]``."""
        memory = self.network.encode(source, source.ne(PAD)[:, None, None, :])
        pairs = [cast(CrossProjections, cross).project_memory(memory) for cross in self.cross]
        return torch.stack([keys for keys, _ in pairs]), torch.stack([values for _, values in pairs])


class DecoderStep(nn.Module):
    """One more target token of every hypothesis, beside the keys and values of those before it."""

    def __init__(self, model: IncrementalTransformer) -> None:
        super().__init__()
        self.network = model.network
        self.cross = model.cross

    def forward(
        self,
        tokens: Tensor,
        source: Tensor,
        memory_keys: Tensor,
        memory_values: Tensor,
        past_keys: Tensor,
        past_values: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Reads a token.

        Args:
            tokens: ``[batch]``, the beginning token first.
            source: ``[batch, source]``.
            memory_keys: Of the encoder, ``[layers, batch, heads, source, head_width]``.
            memory_values: Likewise.
            past_keys: Of the tokens before, ``[layers, batch, heads, past, head_width]``; at first past is 0.
            past_values: Likewise.

        Returns:
            Logits of the next token ``[batch, vocabulary]``, and keys and values with this token's.
        """
        network, past = self.network, past_keys.shape[3]
        hidden = network.target_embedding(tokens).unsqueeze(1) * network.scale
        if network.positions is not None:
            hidden = hidden + network.positions(past + 1)[-1:]
        places = torch.arange(past + 1, device=tokens.device)
        relative = None if network.decoder_positions is None else network.decoder_positions(places[-1:], places)
        mask = source.ne(PAD)[:, None, None, :]
        # All state goes in and out: a graph keeps none, and the caller may reorder the rows of a beam.
        all_keys, all_values = [], []
        for number, layer in enumerate(cast(list[DecoderLayer], list(network.decoder))):
            attention = cast(MultiheadAttention, layer.attention.block)
            query, key, value = attention.queries_keys_values(layer.attention.enter(hidden), None)
            keys, values = torch.cat([past_keys[number], key], 2), torch.cat([past_values[number], value], 2)
            hidden = layer.attention.leave(hidden, attended(attention, query, keys, values, relative))
            cross = cast(MultiheadAttention, layer.cross.block)
            query = cross.split(cast(CrossProjections, self.cross[number]).query(layer.cross.enter(hidden)))
            found = attended(cross, query, memory_keys[number], memory_values[number], mask)
            hidden = layer.feedforward(layer.cross.leave(hidden, found))
            all_keys.append(keys)
            all_values.append(values)
        logits: Tensor = network.output(network.decoder_norm(hidden))[:, 0]
        return logits, torch.stack(all_keys), torch.stack(all_values)


def attended(attention: MultiheadAttention, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """The output of an attention block of given queries, keys and values, ``[batch, length, width]``."""
    context = F.scaled_dot_product_attention(query, keys, values, mask)
    outputs: Tensor = attention.output(context.transpose(1, 2).flatten(2))
    return outputs


def translation_graph(network: EncoderDecoder) -> ExportGraph:
    """Tokens of both sides to the logits of the next target tokens; in parts, what a search calls."""
    plain = with_tables(folded(network))
    sizes = [cast(nn.Embedding, table).num_embeddings for table in (plain.source_embedding, plain.target_embedding)]
    generator = torch.Generator().manual_seed(1)
    examples = []
    for batch, length, target_length in ((2, 7, 5), (1, 5, 1), (3, 17, 9), (2, 8, 21)):
        source = random_tokens(generator, sizes[0], batch, length)
        # One padded row in each, so that the mask is traced too.
        source[-1, length // 2 + 1 :] = PAD
        examples.append((source, random_tokens(generator, sizes[1], batch, target_length)))
    return ExportGraph(
        plain,
        NextTargetToken(plain).eval(),
        NextTargetToken(network).eval(),
        inputs={"source": ("batch", "source_length"), "target": ("batch", "target_length")},
        outputs=["logits"],
        largest={"batch": MOST, "source_length": LONGEST, "target_length": LONGEST},
        examples=examples,
        facts=TOKENS,
        parts=search_graphs(network, examples),
    )


@torch.no_grad()
def search_graphs(network: EncoderDecoder, examples: list[tuple[Tensor, Tensor]]) -> Mapping[str, ExportGraph]:
    """The encoder, and the decoder of one token beside the cache of those before it."""
    model = IncrementalTransformer(network, PAD).eval()
    encoder, decoder = SourceEncoder(model).eval(), DecoderStep(model).eval()
    steps = []
    for source, target in examples:
        memory = encoder(source)
        # No token has been read yet: the cache has the sizes of the memory, but no length.
        past = memory[0][:, :, :, :0]
        cache = (past, past.clone())
        for token in target[:, :-1].unbind(1):
            cache = decoder(token, source, *memory, *cache)[1:]
        steps.append((target[:, -1], source, *memory, *cache))
    layers, _, heads, _, head_width = steps[0][2].shape
    memory_sizes = (layers, "batch", heads, "source_length", head_width)
    past_sizes = (layers, "batch", heads, "past_length", head_width)
    largest = {"batch": MOST, "source_length": LONGEST}
    inputs = {
        "tokens": ("batch",),
        "source": ("batch", "source_length"),
        "memory_keys": memory_sizes,
        "memory_values": memory_sizes,
        "past_keys": past_sizes,
        "past_values": past_sizes,
    }

    def by_the_network(tokens: Tensor, source: Tensor, *cache: Tensor) -> tuple[Tensor, ...]:
        """The trained network's own answer, for the whole target at once."""
        found = decoder(tokens, source, *cache)
        target = next(target for of, target in examples if of is source)
        logits = NextTargetToken(network)(source, target)[:, -1]
        return logits, *found[1:]

    return {
        "encoder": ExportGraph(
            model.network,
            encoder,
            encoder,
            inputs={"source": ("batch", "source_length")},
            outputs=["memory_keys", "memory_values"],
            largest=largest,
            examples=[(source,) for source, _ in examples],
            facts=TOKENS,
        ),
        "decoder": ExportGraph(
            model.network,
            decoder,
            by_the_network,
            inputs=inputs,
            outputs=["logits", "keys", "values"],
            largest={**largest, "past_length": LONGEST - 1},
            examples=steps,
            facts=TOKENS,
        ),
    }


SHOWN = 5
"""Differing lines that are shown."""


@dataclass(frozen=True)
class Difference:
    """A line that the two engines translate differently.

    Attributes:
        line: Its number, from 1.
        margin: Our score of our output minus our score of the other: about 0 is a tie that rounding decides, below 0
            the other engine's search found the better one.
    """

    line: int
    ours: str
    theirs: str
    margin: float


@dataclass(frozen=True)
class Agreement:
    """Two engines on the same sentences: the BLEU of both, with the penalty that the other one knows."""

    split: str
    sentences: int
    ours: Score
    theirs: Score
    differences: Sequence[Difference]


@dataclass(frozen=True)
class EngineExport:
    """A converted model, and what it makes of a split of the data, if that was asked for."""

    path: Path
    bytes: int
    quantization: str
    agreement: Agreement | None


def export_to_ctranslate2(
    trained: TrainedModel, out: Path | None, quantization: str, split: str | None, **weights: Any
) -> EngineExport:
    """Converts a run for CTranslate2 and compares what both make of a split.

    Args:
        trained: The opened run.
        out: The directory to write; unless given, ``exports/ctranslate2`` in the run directory.
        quantization: "none", "int8", "int8_float32", "bfloat16" or "float16".
        split: A split of the run's data to decode with both; ``None``: no comparison.
        **weights: Which weights: the arguments of ``TrainedModel.load``.

    Raises:
        PhmrunError: The run is no sequence-to-sequence network, the library or the data are missing, or ``out`` is a
            directory of something else.
    """
    task = TASKS.get(trained.config.task)
    if not task.converts:
        raise PhmrunError(
            f"CTranslate2 translates, and {trained.config.task} is no sequence-to-sequence task",
            where=trained.run.id,
            hint=f"phmrun export {trained.run.id} --format onnx",
        )
    library()
    decoding = {"engine": "ctranslate2", "quantization": quantization}
    files: dict[str, tuple[Path, Path]] = task.load("data")(trained.config, cache_dir()).files if split else {}
    if split and split not in files:
        raise unknown("split", split, [*files, "none"], where="--split")
    engine = cast(Translator, trained.predictor(decoding=decoding, device="cpu", **weights))
    network = cast(EncoderDecoder, trained.module.network)
    path = engine.directory
    if out is not None:
        # An earlier export may be written over, anything else of the user's may not.
        if out.exists() and not (out / "model.bin").is_file() and any(out.iterdir() if out.is_dir() else [out]):
            raise PhmrunError("there is something else here, which would be overwritten", where=str(out))
        path = converted(network, engine.vocabularies, out, engine.search.quantization)
    size = sum(file.stat().st_size for file in path.iterdir())
    if split is None:
        return EngineExport(path, size, quantization, None)
    usual = {"engine": "torch", "quantization": "none", "penalty": "power"}
    ours = cast(Translator, trained.predictor(decoding=usual, device="cpu", **weights))
    sources, references = (list(side) for side in zip(*read_parallel(*files[split]), strict=True))
    return EngineExport(path, size, quantization, agreement(network, ours, engine, sources, references, split))


def agreement(
    network: EncoderDecoder,
    ours: Translator,
    theirs: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    split: str,
) -> Agreement:
    """What two translators with the same weights and the same search make of the same sentences.

    The trained network judges between outputs that differ.
    """
    found = [side.hypotheses(sources, f"{side.search.engine}: {split}") for side in (ours, theirs)]
    texts = [[ours.vocabularies.target.decode(best[0].tokens) for best in outputs] for outputs in found]
    # Where both say the same there is nothing to judge: only outputs that differ are scored by the network.
    differing = [row for row in range(len(sources)) if found[0][row][0].tokens != found[1][row][0].tokens]
    encoded = ours.vocabularies.source.encode_all([sources[row] for row in differing])
    scores = [
        forced_scores(network, encoded, [outputs[row][0].tokens for row in differing], ours.search.alpha)
        for outputs in found
    ]
    return Agreement(
        split,
        len(sources),
        bleu(texts[0], references),
        bleu(texts[1], references),
        [
            Difference(row + 1, texts[0][row], texts[1][row], scores[0][place] - scores[1][place])
            for place, row in enumerate(differing)
        ],
    )


@torch.inference_mode()
def forced_scores(
    network: EncoderDecoder, sources: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]], alpha: float
) -> list[float]:
    """log-probability / length^α of given outputs, by the network without any search or cache.

    Args:
        network: The network.
        sources: Token numbers without the end.
        outputs: Token numbers without beginning and end.
        alpha: Exponent of the length penalty.
    """
    network = network.eval()
    scores = []
    for source, output in zip(sources, outputs, strict=True):
        tokens = torch.tensor([[*source, EOS]])
        hidden = network(tokens, padding_mask(tokens, PAD), torch.tensor([[BOS, *output]]))
        chances = torch.log_softmax(network.output(hidden)[0].float(), dim=-1)
        total = float(chances.gather(1, torch.tensor([*output, EOS]).unsqueeze(1)).sum())
        scores.append(total / length_penalty(len(output) + 1, alpha, "power"))
    return scores
