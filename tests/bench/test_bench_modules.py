"""All forms of a measured module compute the same function; torch's modules are the reference."""

import pytest
import torch
from torch import nn

from phmrun.bench.modules import MODULE_KINDS, EinsumBiaffine
from phmrun.cli.bench_layers import MODULES
from phmrun.layers import Biaffine

SHAPES = {
    "linear": [(16, 32)],
    "output": [(16, 64)],
    "embedding": [(64, 16)],
    "lstm": [(16, 16), (8, 16)],
    "biaffine": [(16, 1), (8, 3)],
}
CASES = [(name, shape) for name, shapes in SHAPES.items() for shape in shapes]
EXPECTED = {
    ("linear", "dense"): {"dense"},
    ("linear", "phm"): {"dense", "factored"},
    ("embedding", "dense"): {"dense"},
    ("embedding", "phm"): {"dense", "factored"},
    ("lstm", "phm"): {"dense", "unfolded"},
    ("biaffine", "phm"): {"dense", "unfolded"},
    ("biaffine", "symmetric"): {"dense", "factored"},
    ("biaffine", "circulant"): {"dense", "factored"},
}


def test_the_command_line_knows_all():
    assert sorted(MODULES) == sorted(MODULE_KINDS)


def fits(structure, name, shape):
    """Circulant and symmetric matrices are square."""
    return structure not in ("circulant", "symmetric") or all(
        out == into for out, into in MODULE_KINDS[name].maps(shape)
    )


@pytest.mark.parametrize(
    ("structure", "name", "shape"),
    [
        (structure, *case)
        for structure in ("dense", "phm", "low-rank", "circulant", "symmetric")
        for case in CASES
        if fits(structure, *case)
    ],
)
def test_all_forms_compute_one_function(structure, name, shape):
    kind = MODULE_KINDS[name]
    torch.manual_seed(0)
    module = kind.build(shape, structure, {})
    inputs = kind.draw(shape, (2, 5)[-len(kind.sizes.batches[0]) :], torch.float32)
    expected = kind.call(module, inputs)
    forms = kind.forms(module)
    assert set(forms) == EXPECTED.get((name, structure), set(forms))
    for form in forms.values():
        assert not any(parameter.requires_grad for parameter in form.parameters())
        torch.testing.assert_close(kind.call(form, inputs), expected)
    assert kind.in_training(module) in ("dense", "factored")


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_references_have_the_sizes_of_ours(name, shape):
    kind = MODULE_KINDS[name]
    plain, ours = kind.plain(shape), kind.build(shape, "dense", {})
    inputs = kind.draw(shape, (2, 5)[-len(kind.sizes.batches[0]) :], torch.float32)
    assert kind.call(plain, inputs).shape == kind.call(ours, inputs).shape
    if name != "lstm":  # nn.LSTM has a second bias per gate, which ours can do without
        counts = [sum(parameter.numel() for parameter in module.parameters()) for module in (plain, ours)]
        assert counts[0] == counts[1]


@pytest.mark.parametrize("labels", [1, 3])
def test_the_einsum_is_the_biaffine_form(labels):
    torch.manual_seed(0)
    reference, ours = EinsumBiaffine(6, labels, bias_y=labels > 1), Biaffine(6, labels, bias_y=labels > 1)
    with torch.no_grad():
        for label, structure in enumerate(ours.maps):
            structure.matrix.copy_(reference.weight[label, :6, :6])
        ours.v.copy_(reference.weight[:, 6, :6])
        if labels > 1:
            ours.u.copy_(reference.weight[:, :6, 6])
            ours.c.copy_(reference.weight[:, 6, 6])
    x, y = torch.randn(2, 4, 6), torch.randn(2, 4, 6)
    torch.testing.assert_close(reference.pairs(x, y), ours.pairs(x, y))
    if labels == 1:
        torch.testing.assert_close(reference(x, y), ours(x, y))


def test_the_references_are_torchs():
    assert isinstance(MODULE_KINDS["lstm"].plain((4, 4)), nn.LSTM)
    assert isinstance(MODULE_KINDS["embedding"].plain((4, 4)), nn.Embedding)
