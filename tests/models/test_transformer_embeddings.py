"""The Transformer with embeddings of several matrices: what is tied, step-by-step decoding, export, counts."""

import pytest
import torch
from built_networks import built

from phmrun.exchange.formats import largest_difference
from phmrun.families.sequence_to_sequence.graph import translation_graph
from phmrun.layers import AdaptiveInput, DeFINE
from phmrun.layers.structure import Structure
from phmrun.models.incremental import IncrementalTransformer
from phmrun.models.transformer import Transformer

DEEP = {"depth": 2, "expansion": 32, "width": 8, "multiple_of": 8}
KINDS = {
    "adaptive": {"cutoffs": [8, 16], "div_value": 2},
    "projective": {"width": 8},
    "define": {**DEEP, "max_groups": 4},
    "hgt": {**DEEP, "max_groups": 4, "inside": {"structure": "phm", "n": 2}},
    "linear": DEEP,
}
VOCABULARY, WIDTH = 32, 16
SOURCE = torch.tensor([[5, 6, 31, 8, 3], [9, 20, 3, 0, 0]])
TARGET = torch.tensor([[2, 11, 30], [2, 13, 4]])


def build(kind, tie, **options):
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "feedforward": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1}
    options |= {"tie": tie, "embedding": {"structure": kind, **KINDS[kind]}, "output_bias": True}
    network = built(Transformer, VOCABULARY, VOCABULARY, **sizes, **options).double().eval()
    with torch.no_grad():
        network.output.bias.normal_()
    return network


cases = pytest.mark.parametrize(("kind", "tie"), [(kind, tie) for kind in KINDS for tie in ("all", "decoder", "none")])


@cases
def test_every_parameter_learns_and_vectors_begin_with_length_one(kind, tie):
    network = build(kind, tie, dropout=0.0)
    hidden = network(SOURCE, SOURCE.ne(0)[:, None, None, :], TARGET)
    network.output(hidden).log_softmax(-1)[..., 7].sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
    lengths = network.source_embedding.weight.norm(dim=1)
    assert 0.3 < float(lengths.detach().mean()) < 1.5  # an HGT's maps begin as nn.Linear's, which shorten


@cases
def test_what_is_tied_is_one(kind, tie):
    network = build(kind, tie)
    assert (network.source_embedding is network.target_embedding) == (tie == "all")
    tables = network.target_embedding
    words = tables.mapping if isinstance(tables, DeFINE) else tables
    assert isinstance(words, AdaptiveInput)
    structures = {id(part) for part in network.output.modules() if isinstance(part, Structure)}
    shared = structures & {id(part) for part in words.modules() if isinstance(part, Structure)}
    assert bool(shared) == (tie != "none")


@torch.no_grad()
@cases
@pytest.mark.parametrize("application", ["dense", "factored"])
def test_step_by_step_as_all_at_once(kind, tie, application):
    network = build(kind, tie, output={"structure": "phm", "n": 2} if tie == "none" else None)
    decoder = IncrementalTransformer(network, 0, application)
    assert isinstance(decoder.network.target_embedding, torch.nn.Embedding)
    state = decoder.start(SOURCE)
    wanted = network.output(network(SOURCE, SOURCE.ne(0)[:, None, None, :], TARGET))
    for step in range(TARGET.shape[1]):
        actual = decoder.step(TARGET[:, step : step + 1], state)
        torch.testing.assert_close(actual[:, 0], wanted[:, step])


@cases
def test_the_exported_function_is_the_same(kind, tie):
    program = translation_graph(build(kind, tie))
    assert largest_difference(program, program.function) < 1e-10
    assert not [part for part in program.network.modules() if isinstance(part, Structure)]
