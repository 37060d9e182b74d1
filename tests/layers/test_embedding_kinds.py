"""Embeddings by name: sizes by hand, options, structures inside, and the outputs that share their words."""

import copy

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.layers import (
    DeFINE,
    Structure,
    build_embedding,
    build_structure,
    folded,
    for_inference,
    options_of,
    tied_output,
)
from phmrun.registry import EMBEDDINGS

DEEP = {"depth": 2, "expansion": 32, "multiple_of": 8}
SMALL = {
    "adaptive": {"cutoffs": [8, 16], "div_value": 2},
    "projective": {"width": 8},
    "define": {**DEEP, "max_groups": 4, "width": 8},
    "hgt": {**DEEP, "max_groups": 4, "width": 8},
    "glt": {**DEEP, "max_groups": 2, "width": 8},
    "glt-shuffle": {**DEEP, "max_groups": 2, "width": 8},
    "linear": {**DEEP, "width": 8},
}
TOKENS = torch.tensor([[1, 9, 30], [1, 1, 17]])


def small(name, **options):
    torch.manual_seed(0)
    return build_embedding(32, 16, structure=name, **{**SMALL[name], **options})


def size_of(module):
    return sum(parameter.numel() for parameter in module.parameters())


def test_all_are_tested():
    assert sorted(SMALL) == EMBEDDINGS.names()


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("inside", [None, {"structure": "phm", "n": 2}], ids=str)
def test_lookup_table_and_gradients(name, inside):
    module = small(name, inside=inside)
    vectors = module(TOKENS)
    assert vectors.shape == (2, 3, 16)
    torch.testing.assert_close(vectors, module.weight[TOKENS], rtol=1e-4, atol=1e-5)
    matrices = [part for part in module.modules() if isinstance(part, Structure)]
    assert {part.name for part in matrices} == {"dense" if inside is None else "phm"}
    module.weight.mul(torch.randn(32, 16)).sum().backward()
    for key, parameter in module.named_parameters():
        assert parameter.grad is not None, key
        assert bool(parameter.grad.any()), key


@torch.no_grad()
@pytest.mark.parametrize("name", SMALL)
def test_copies_for_inference(name):
    module = small(name).eval()
    for form in (folded(module), for_inference(module, "factored"), copy.deepcopy(module)):
        torch.testing.assert_close(form(TOKENS), module(TOKENS))
    assert not [part for part in folded(module).modules() if isinstance(part, Structure)]


def test_sizes_by_hand():
    """32 words of m = 16; the deep ones: n = 8, widths 24 and 32, each transform with a bias."""
    words, last = 32 * 8, 32 * 16 + 16
    sizes = {
        "adaptive": 8 * 16 + (8 * 8 + 8 * 16) + (16 * 4 + 4 * 16),
        "projective": words + 8 * 16,
        "define": words + (8 * 24 // 16 + 24 // 4) + ((24 + 8) * 32 // 4 + 32 // 2) + last + 8 * 16,
        "hgt": words + (8 * 24 // 16 + 24 // 4) + (24 * 32 // 4 + 32 // 2) + last,
        "glt": words + (8 * 24 // 4 + 24 // 2) + (24 * 32 // 4 + 32 // 2) + last,
        "linear": words + (8 * 24 + 24) + (24 * 32 + 32) + last,
    }
    sizes["glt-shuffle"] = sizes["glt"]
    assert {name: size_of(small(name)) for name in SMALL} == sizes


def test_options_of_embeddings_differ_as_documented():
    names = {name: {*options_of(name, table=True).model_fields} for name in SMALL}
    assert "connection" in names["define"]
    assert names["hgt"] == names["define"] - {"connection", "shuffle", "variant"}
    assert names["glt"] == names["hgt"] - {"schedule"} == names["glt-shuffle"]
    assert names["linear"] == names["glt"] - {"max_groups"}
    assert all("inside" in item for item in names.values())
    assert all(field.description for name in SMALL for field in options_of(name, table=True).model_fields.values())
    assert options_of("phm", table=True) is options_of("phm")


def test_embeddings_are_refused_as_layers():
    with pytest.raises(PhmrunError, match="'define' makes the vectors of an embedding") as caught:
        options_of("define")
    assert caught.value.hint == "use --embedding define"
    with pytest.raises(PhmrunError, match="makes the vectors of an embedding"):
        build_structure("hgt", 8, 8)
    with pytest.raises(PhmrunError, match="no embedding 'defien'") as caught:
        options_of("defien", table=True)
    assert "define" in str(caught.value.hint)
    with pytest.raises(PhmrunError, match="embedding 'hgt' has no option 'connection'"):
        small("hgt", connection="plain")
    with pytest.raises(PhmrunError, match="connection of embedding 'define': 'mix'"):
        small("define", connection="mix")
    with pytest.raises(PhmrunError, match="4 groups do not divide"):
        small("define", width=6)
    with pytest.raises(PhmrunError, match="multiple_of is 0"):
        small("define", multiple_of=0)


@pytest.mark.parametrize("name", ["dense", "phm", *SMALL])
def test_outputs_share_the_words(name):
    embedding = small(name) if name in SMALL else build_embedding(32, 16, structure=name)
    alone = size_of(embedding)
    output = tied_output(16, embedding, bias=True)
    both = nn.ModuleDict({"embedding": embedding, "output": output})
    deep = isinstance(embedding, DeFINE)
    assert size_of(both) == alone + 32 + (16 * 8 if deep else 0)
    hidden = torch.randn(2, 5, 16, requires_grad=True)
    words = embedding.mapping if deep else embedding
    inner = output.project(hidden) if deep else hidden
    torch.testing.assert_close(output(hidden), inner @ words.weight.t() + output.bias, rtol=1e-4, atol=1e-5)
    vectors, weight = output.reduced(hidden.flatten(0, 1))
    torch.testing.assert_close(vectors @ weight.t() + output.bias, output(hidden).flatten(0, 1), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(folded(both)["output"](hidden), output(hidden), rtol=1e-4, atol=1e-5)
