"""``MultiheadAttention`` against ``torch.nn.MultiheadAttention`` with the same dense weights."""

import pytest
import torch
from structure_cases import CASES
from torch import nn

from phmrun.layers import MultiheadAttention

WIDTH, HEADS, BATCH, LENGTH, MEMORY = 32, 4, 2, 5, 7


def twin_of(ours: MultiheadAttention) -> nn.MultiheadAttention:
    """Torch's attention with our dense weights, queries before keys before values."""
    bias = ours.output.bias is not None
    theirs = nn.MultiheadAttention(WIDTH, ours.num_heads, bias=bias, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([linear.weight for linear in ours.project]))
        theirs.out_proj.weight.copy_(ours.output.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([linear.bias for linear in ours.project]))
            theirs.out_proj.bias.copy_(ours.output.bias)
    return theirs.eval()


def build(maps, name="dense", options=None, bias=True):
    torch.manual_seed(0)
    ours = MultiheadAttention(WIDTH, HEADS, bias=bias, maps=maps, structure=name, **(options or {})).double()
    with torch.no_grad():
        for linear in (*ours.project, ours.output):
            if bias:
                linear.bias.normal_()
    return ours.eval()


@pytest.fixture
def vectors():
    torch.manual_seed(1)
    return torch.randn(BATCH, LENGTH, WIDTH).double(), torch.randn(BATCH, MEMORY, WIDTH).double()


BOTH = pytest.mark.parametrize("maps", ["joint", "separate"])


@BOTH
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_attention_to_the_inputs_and_to_a_memory(maps, name, options, bias, vectors):
    inputs, memory = vectors
    ours = build(maps, name, options, bias)
    torch.testing.assert_close(ours(inputs), twin_of(ours)(inputs, inputs, inputs)[0])
    torch.testing.assert_close(ours(inputs, memory), twin_of(ours)(inputs, memory, memory)[0])


def test_a_mask_and_causality_together(vectors):
    inputs, _ = vectors
    ours = build("joint")
    tokens = torch.ones(BATCH, LENGTH, dtype=torch.bool)
    tokens[1, 3:] = False
    future = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
    expected = twin_of(ours)(inputs, inputs, inputs, key_padding_mask=~tokens, attn_mask=future)[0]
    torch.testing.assert_close(ours(inputs, mask=tokens[:, None, None, :], causal=True), expected)


@pytest.mark.parametrize("inner", [16, 64])
def test_an_inner_width_of_its_own(inner, vectors):
    inputs, memory = vectors
    torch.manual_seed(0)
    ours = MultiheadAttention(WIDTH, HEADS, maps="separate", inner_dim=inner).double().eval()
    heads = []
    query, key, value = (p.weight for p in ours.project)
    for head in range(HEADS):
        rows = slice(head * inner // HEADS, (head + 1) * inner // HEADS)
        scores = (inputs @ query[rows].t()) @ (memory @ key[rows].t()).transpose(1, 2) / (inner / HEADS) ** 0.5
        heads.append(scores.softmax(-1) @ (memory @ value[rows].t()))
    torch.testing.assert_close(ours(inputs, memory), torch.cat(heads, -1) @ ours.output.weight.t())
