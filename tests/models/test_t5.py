"""The Transformer with T5's norms and positions, against Hugging Face's T5 with the same weights."""

import pytest
import torch
from built_networks import built
from test_incremental import network_of, walk

from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.positions import RelativePositions
from phmrun.models.transformer import Transformer, padding_mask

T5 = {
    "normalization": "rms",
    "positions": "relative",
    "attention_maps": "separate",
    "bias": False,
    "feedforward_bias": False,
}
WIDTH, INNER, HEADS, VOCABULARY = 16, 24, 2, 32
SOURCE = torch.tensor([[5, 6, 7, 8, 3], [9, 10, 3, 0, 0]])
TARGET = torch.tensor([[2, 11, 12, 20], [2, 13, 4, 5]])


def build():
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "feedforward": INNER, "heads": HEADS, "encoder_layers": 2, "decoder_layers": 3}
    network = built(Transformer, VOCABULARY, VOCABULARY, **sizes, **T5).double().eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "positions" in name or "norm" in name:
                parameter.add_(torch.randn_like(parameter))
    return network


def theirs_of(network):
    transformers = pytest.importorskip("transformers")
    sizes = {"d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": INNER, "num_heads": HEADS, "num_layers": 2}
    config = transformers.T5Config(vocab_size=VOCABULARY, **sizes, num_decoder_layers=3, dropout_rate=0.0)
    theirs = transformers.T5Model(config).double().eval()

    def copy_attention(target, ours):
        query, key, value = (linear.weight for linear in ours.project)
        target.q.weight.copy_(query * (WIDTH // HEADS) ** -0.5)  # T5 does not scale its scores
        target.k.weight.copy_(key)
        target.v.weight.copy_(value)
        target.o.weight.copy_(ours.output.weight)

    def copy_block(target, ours, parts):
        for number, part in enumerate(parts):
            sublayer = getattr(ours, part)
            target.layer[number].layer_norm.weight.copy_(sublayer.norm.weight)
            if part == "feedforward":
                target.layer[number].DenseReluDense.wi.weight.copy_(sublayer.block.expand.weight)
                target.layer[number].DenseReluDense.wo.weight.copy_(sublayer.block.contract.weight)
            else:
                attention = target.layer[number].SelfAttention if number == 0 else target.layer[number].EncDecAttention
                copy_attention(attention, sublayer.block)

    with torch.no_grad():
        theirs.shared.weight.copy_(network.source_embedding.weight * WIDTH**0.5)  # nor its embeddings
        for ours, block in zip(network.encoder, theirs.encoder.block, strict=True):
            copy_block(block, ours, ("attention", "feedforward"))
        for ours, block in zip(network.decoder, theirs.decoder.block, strict=True):
            copy_block(block, ours, ("attention", "cross", "feedforward"))
        for stack, mine, norm in (
            (theirs.encoder, network.encoder_positions, network.encoder_norm),
            (theirs.decoder, network.decoder_positions, network.decoder_norm),
        ):
            stack.block[0].layer[0].SelfAttention.relative_attention_bias.weight.copy_(mine.table)
            stack.final_layer_norm.weight.copy_(norm.weight)
    return theirs


@torch.no_grad()
def test_hidden_vectors_equal_theirs():
    network = build()
    theirs = theirs_of(network)
    expected = theirs(input_ids=SOURCE, attention_mask=(SOURCE != 0).long(), decoder_input_ids=TARGET).last_hidden_state
    torch.testing.assert_close(network(SOURCE, padding_mask(SOURCE, 0), TARGET), expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("both_ways", [True, False])
def test_distance_buckets_equal_t5s(both_ways):
    t5 = pytest.importorskip("transformers.models.t5.modeling_t5")
    offsets = torch.arange(-300, 301)
    mine = RelativePositions(2, both_ways=both_ways).bucket_of(offsets)
    assert torch.equal(mine, t5.T5Attention._relative_position_bucket(offsets, both_ways, 32, 128))


@torch.inference_mode()
@pytest.mark.parametrize("widths", [[3, 3, 2, 4, 4, 1, 3], [1] * 70])
def test_every_step_with_relative_positions_equals_the_whole_network(widths):
    network = network_of(**T5)
    with torch.no_grad():
        for stack in (network.encoder_positions, network.decoder_positions):
            stack.table.normal_()
    walk(network, IncrementalTransformer(network, 0), widths=widths, seed=1, batch=2)
