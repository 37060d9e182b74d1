"""DeLighT: its plan of maps, the authors' counts, one map against torch's own, and decoding step by step."""

import pytest
import torch
from built_networks import built
from test_incremental import PAD, VOCABULARY, walk
from torch.nn import functional as F

from phmrun.models.delight import DeLighT, DeLighTTransformation
from phmrun.models.incremental import IncrementalTransformer


def network_of(seed=0, **options):
    torch.manual_seed(seed)
    sizes = {"width": 64, "word_width": 16, "encoder_layers": 1, "decoder_layers": 2}
    sizes |= {"min_depth": 2, "max_depth": 3, "norm": "post"}
    network = built(DeLighT, VOCABULARY, VOCABULARY, **{**sizes, **options}).double().eval()
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.add_(0.2 * torch.randn_like(parameter) if name.endswith("bias") else 0.5 * parameter)
    return network


def count(width, vocabulary):
    with torch.device("meta"):
        network = built(DeLighT, vocabulary, vocabulary, width=width, encoder_layers=8, decoder_layers=8, norm="post")
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("vocabulary", "printed"),
    [
        (34_976, {128: 6.97, 256: 12.67, 384: 22.12}),  # WMT'16 En-Ro, entries as in Shapeshifter
        (43_736, {128: 8.09, 256: 13.79, 384: 23.25, 512: 36.76, 640: 54.04}),  # WMT'14 En-De: one size for all
    ],
)
def test_counts_are_those_that_the_authors_print(vocabulary, printed):
    assert {width: round(count(width, vocabulary) / 1e6, 2) for width in printed} == printed


def test_a_transformation_group_by_group():
    torch.manual_seed(1)
    module = DeLighTTransformation(16, 8, 8, widest=32.0, depth=3, max_groups=4).double()
    inputs = torch.randn(5, 16, dtype=torch.float64)
    start = F.silu(F.layer_norm(inputs @ module.enter.weight.t() + module.enter.bias, (8,)))
    hidden = start
    for number, (linear, plan) in enumerate(zip(module.maps, module.plan, strict=True)):
        blocks, groups = linear.structure.block, plan.groups
        parts = hidden.chunk(groups, -1)
        if number:
            parts = [torch.cat(pair, -1) for pair in zip(start.chunk(groups, -1), parts, strict=True)]
        outputs = torch.stack([part @ block.t() for part, block in zip(parts, blocks, strict=True)], -1).flatten(1)
        outputs = (outputs + linear.bias).view(5, groups, -1)
        hidden = F.silu(F.layer_norm(outputs, outputs.shape[-1:])).flatten(1)
    wanted = torch.cat([start, hidden], -1) @ module.leave.weight.t() + module.leave.bias
    torch.testing.assert_close(module(inputs), F.silu(F.layer_norm(wanted, (8,))))


def test_no_output_depends_on_later_tokens_or_on_padding():
    network = network_of()
    source, target = torch.randint(4, VOCABULARY, (2, 6)), torch.randint(4, VOCABULARY, (2, 7))
    later = target.clone()
    later[:, 4:] = 4
    hidden, other = network(source, None, target), network(source, None, later)
    torch.testing.assert_close(hidden[:, :4], other[:, :4])
    assert not torch.allclose(hidden[:, 4:], other[:, 4:])
    padded = torch.cat([source, torch.full((2, 3), PAD)], 1)
    torch.testing.assert_close(network(padded, padded.ne(PAD)[:, None, None, :], target), hidden)


LAYOUTS = [
    {"tie": "all"},
    {"tie": "decoder", "norm": "pre", "layer": {"structure": "phm", "n": 2}, "output": {"structure": "phm", "n": 2}},
    {"tie": "none", "word_width": 64, "embedding": {"structure": "low-rank", "rank": 4}, "output_bias": True},
]


@torch.inference_mode()
@pytest.mark.parametrize("application", ["dense", "factored"])
@pytest.mark.parametrize("options", LAYOUTS, ids=lambda options: options["tie"])
def test_every_step_of_delight_equals_the_whole_network(options, application):
    network = network_of(**options)
    walk(network, IncrementalTransformer(network, PAD, application), widths=[3, 3, 2, 4, 1], seed=1)


def test_every_parameter_has_a_gradient_and_words_are_shared():
    network = network_of()
    assert network.output.words is network.source_embedding.words is network.target_embedding.words
    tokens = torch.randint(4, VOCABULARY, (2, 5))
    network.output(network(tokens, None, tokens)).logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in network.parameters())
