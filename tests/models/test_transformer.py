"""The Transformer against one put together from ``torch.nn``'s own layers with the same dense weights."""

import itertools
import math

import pytest
import torch
from built_networks import built
from structure_cases import CASES
from torch import nn

from phmrun.models.transformer import Transformer, padding_mask

pytestmark = pytest.mark.filterwarnings("ignore:enable_nested_tensor")

WIDTH, INNER, HEADS, LAYERS, VOCABULARY, PAD = 16, 32, 4, 2, 32, 0
SOURCE = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
TARGET = torch.tensor([[2, 11, 12], [2, 13, 0]])


def build(**options):
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "feedforward": INNER, "heads": HEADS, "encoder_layers": LAYERS, "decoder_layers": LAYERS}
    network = built(Transformer, VOCABULARY, VOCABULARY, **{**sizes, **options}).double().eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "norm" in name or name.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) / 4)
    return network


def copied(target: nn.Module, weight, bias):
    """Sets the weight and the bias of a torch layer; a bias that ours lacks is zero."""
    target.weight.copy_(weight)
    target.bias.copy_(torch.zeros_like(target.bias) if bias is None else bias)


def copied_attention(target: nn.MultiheadAttention, ours):
    target.in_proj_weight.copy_(torch.cat([linear.weight for linear in ours.project]))
    biases = [linear.bias for linear in ours.project]
    target.in_proj_bias.copy_(torch.zeros(3 * WIDTH) if biases[0] is None else torch.cat(biases))
    copied(target.out_proj, ours.output.weight, ours.output.bias)


def copied_norm(target: nn.LayerNorm, ours: nn.LayerNorm):
    copied(target, ours.weight, ours.bias)


def reference(network: Transformer, norm: str) -> nn.Transformer:
    """``nn.Transformer`` with our weights; without the final norms where ours has none."""
    pre = norm == "pre"
    theirs = nn.Transformer(
        WIDTH, HEADS, LAYERS, LAYERS, INNER, norm_first=pre, batch_first=True, dtype=torch.float64
    ).eval()
    with torch.no_grad():
        layers = [*theirs.encoder.layers, *theirs.decoder.layers]
        for mine, other in zip([*network.encoder, *network.decoder], layers, strict=True):
            inner = mine.feedforward.block
            copied_attention(other.self_attn, mine.attention.block)
            copied(other.linear1, inner.expand.weight, inner.expand.bias)
            copied(other.linear2, inner.contract.weight, inner.contract.bias)
            parts = [mine.attention, mine.feedforward]
            if isinstance(other, nn.TransformerDecoderLayer):
                copied_attention(other.multihead_attn, mine.cross.block)
                parts.insert(1, mine.cross)
            for number, part in enumerate(parts, 1):
                copied_norm(getattr(other, f"norm{number}"), part.norm)
        if pre:
            copied_norm(theirs.encoder.norm, network.encoder_norm)
            copied_norm(theirs.decoder.norm, network.decoder_norm)
        else:
            theirs.encoder.norm = theirs.decoder.norm = None
    return theirs


def embedded(table, tokens):
    """√width · row + (sines, cosines) of the position, one entry at a time."""
    half = WIDTH // 2
    vectors = torch.empty(*tokens.shape, WIDTH, dtype=torch.float64)
    for row, sentence in enumerate(tokens.tolist()):
        for position, token in enumerate(sentence):
            angles = [position / 10000 ** (i / (half - 1)) for i in range(half)]
            waves = [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]
            vectors[row, position] = math.sqrt(WIDTH) * table[token] + torch.tensor(waves, dtype=torch.float64)
    return vectors


LAYOUTS = list(itertools.product(("pre", "post"), ("joint", "separate"), (True, False)))
NETWORKS = [
    pytest.param(*layout, *case.values, id="-".join([*map(str, layout), str(case.id)]))
    for number, case in enumerate(CASES)
    for place, layout in enumerate(LAYOUTS)
    if case.id in ("dense", "phm-2") or (place - number) % len(LAYOUTS) in (0, 3)
]
"""Every layout of a network with two structures, and every structure in two layouts."""


@pytest.mark.parametrize(("norm", "maps", "attention_bias", "name", "options"), NETWORKS)
def test_hidden_vectors_equal_torchs(norm, maps, attention_bias, name, options):
    structure = {"structure": name, **options}
    network = build(norm=norm, attention_maps=maps, bias=attention_bias, layer=structure, embedding=structure)
    theirs = reference(network, norm)
    mask = padding_mask(SOURCE, PAD)
    table = network.source_embedding.weight.detach()
    future = torch.ones(TARGET.shape[1], TARGET.shape[1], dtype=torch.bool).triu(1)
    expected = theirs(
        embedded(table, SOURCE),
        embedded(table, TARGET),
        tgt_mask=future,
        src_key_padding_mask=SOURCE == PAD,
        memory_key_padding_mask=SOURCE == PAD,
    )
    torch.testing.assert_close(network(SOURCE, mask, TARGET), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("tie", "tables"), [("all", 1), ("decoder", 2), ("none", 3)])
def test_tied_tables_are_one_structure(tie, tables):
    output = {"output": {"structure": "phm", "n": 4}} if tie == "none" else {}
    network = build(tie=tie, embedding={"structure": "phm", "n": 2}, **output)
    structures = {network.source_embedding.structure, network.target_embedding.structure, network.output.structure}
    assert len(structures) == tables
    assert network.output.structure.n == (4 if tie == "none" else 2)
    outside = sum(
        p.numel() for name, p in network.named_parameters() if "embedding" in name or name.startswith("output")
    )
    phm2, phm4 = VOCABULARY * WIDTH // 2 + 2**3, VOCABULARY * WIDTH // 4 + 4**3
    assert outside == {"all": phm2, "decoder": 2 * phm2, "none": 2 * phm2 + phm4}[tie]


@pytest.mark.parametrize("tie", ["all", "decoder", "none"])
def test_embeddings_and_output_are_drawn_with_variance_one_over_width(tie):
    torch.manual_seed(0)
    phm = {"structure": "phm", "n": 4}
    sizes = {"width": 64, "feedforward": 64, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    network = built(Transformer, 4096, 4096, **sizes, tie=tie, embedding=phm, output=phm)
    for module in (network.source_embedding, network.target_embedding, network.output):
        assert float(module.weight.detach().std()) == pytest.approx(1 / 8, rel=0.03)


@pytest.mark.parametrize("layer", [{"structure": "added", "base": "random"}, {"structure": "guided"}])
def test_a_start_of_glorot_keeps_updates_at_zero_and_guides_at_the_structure(layer):
    structure = build(start="glorot", layer=layer).train().encoder[0].feedforward.block.expand.structure
    start = structure.base if layer["structure"] == "added" else structure.inside.materialize()
    torch.testing.assert_close(structure.materialize(), start, atol=1e-6, rtol=0)
