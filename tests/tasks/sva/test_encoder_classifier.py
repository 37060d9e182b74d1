"""The encoder that classifies, against ``torch.nn``'s encoder with the same weights."""

import math

import numpy as np
import pytest
import torch
from built_networks import built
from torch import nn

from phmrun.models.sentences import batch_of
from phmrun.tasks.sva.encoder_classifier import EncoderClassifier

BATCH = batch_of([np.array([5, 6, 7]), np.array([8])])
TOKENS = torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0]])


def build(**options):
    torch.manual_seed(0)
    return built(EncoderClassifier, 20, 3, width=16, feedforward=32, heads=4, layers=2, **options).double().eval()


@torch.no_grad()
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_logits_equal_torchs(norm):
    network = build(norm=norm)
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, norm_first=norm == "pre", batch_first=True, dtype=torch.float64)
    theirs = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    for mine, other in zip(network.encoder, theirs.layers, strict=True):
        attention, feedforward = mine.attention.block, mine.feedforward.block
        other.self_attn.in_proj_weight.copy_(attention.project[0].weight)
        other.self_attn.in_proj_bias.copy_(attention.project[0].bias)
        for target, ours in (
            (other.self_attn.out_proj, attention.output),
            (other.linear1, feedforward.expand),
            (other.linear2, feedforward.contract),
        ):
            target.weight.copy_(ours.weight)
            target.bias.copy_(ours.bias)
    vectors = network.embedding.weight[TOKENS] * math.sqrt(16) + network.positions(4)
    hidden = theirs(vectors, src_key_padding_mask=TOKENS == 0)
    if norm == "pre":
        hidden = network.encoder_norm(hidden)
    means = torch.stack([hidden[0].mean(0), hidden[1, :2].mean(0)])
    expected = nn.functional.linear(means, network.output.maps[0].weight, network.output.maps[0].bias)
    torch.testing.assert_close(network(BATCH), expected, rtol=1e-6, atol=1e-6)
