"""Structure × wrapper × precision × application × module: one forward and backward pass each, beside 64 bits."""

import copy
from contextlib import nullcontext

import pytest
import torch
from structure_cases import CASES, SQUARE_CASES

from phmrun.layers import Embedding, Linear, folded, options_of
from phmrun.registry import STRUCTURES

SIZE, TOKENS = 16, 5
WRAPPERS = [name for name in STRUCTURES.names() if {"of", "options"} <= {option.name for option in options_of(name)}]
"""Structures that are made of another one, which their options name."""

PRECISIONS = {
    "64": (torch.float64, None, 1e-10),
    "32": (torch.float32, None, 1e-4),
    "bf16-mixed": (torch.float32, torch.bfloat16, 0.1),
    "16-mixed": (torch.float32, torch.float16, 0.02),
}
"""Type of the parameters, that of autocast, and the largest error beside 64 bits."""


def combinations():
    """Every structure, alone and within every wrapper that takes it."""
    for case in [*CASES, *SQUARE_CASES]:
        name, options = case.values
        if name not in WRAPPERS:
            yield pytest.param(name, options, id=str(case.id))
            text = " ".join(f"{key}={value}" for key, value in options.items())
            for wrapper in WRAPPERS:
                wrapped = {"of": name, "options": text}
                if STRUCTURES.get(wrapper).misfit(SIZE, SIZE, **wrapped) is None:
                    yield pytest.param(wrapper, wrapped, id=f"{wrapper}-{case.id}")


def linear(structure, options, application):
    return Linear(SIZE, SIZE, structure=structure, application=application, **options), torch.randn(TOKENS, SIZE)


def embedding(structure, options, application):
    return Embedding(SIZE, SIZE, structure=structure, **options), torch.randint(SIZE, (TOKENS,))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("build", "application"), [(linear, "dense"), (linear, "factored"), (embedding, "rows")],
    ids=["linear-dense", "linear-factored", "embedding"],
)  # fmt: skip
@pytest.mark.parametrize(("structure", "options"), list(combinations()))
def test_forward_and_backward_in_every_combination(structure, options, build, application, precision):
    torch.manual_seed(0)
    module, inputs = build(structure, options, application)
    kind, autocast, tolerance = PRECISIONS[precision]
    exact = copy.deepcopy(module).double()
    expected = exact(inputs.double() if inputs.is_floating_point() else inputs)
    weights = torch.randn(TOKENS, SIZE)
    (expected * weights).sum().backward()
    module.to(kind)
    with torch.autocast("cpu", autocast) if autocast else nullcontext():
        outputs = module(inputs.to(kind) if inputs.is_floating_point() else inputs)
        (outputs.float() * weights).sum().backward()
    scale = float(expected.detach().abs().max())
    torch.testing.assert_close(outputs.double(), expected, rtol=0, atol=tolerance * scale)
    for (name, parameter), theirs in zip(module.named_parameters(), exact.parameters(), strict=True):
        if not parameter.requires_grad:
            continue
        assert parameter.grad is not None, name
        assert parameter.grad.dtype == kind
        scale = float(theirs.grad.abs().max()) + 1e-6
        torch.testing.assert_close(parameter.grad.double(), theirs.grad, rtol=0, atol=4 * tolerance * scale, msg=name)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(("structure", "options"), list(combinations()))
def test_a_folded_and_a_reloaded_copy_compute_the_same_in_every_precision(structure, options, precision):
    torch.manual_seed(0)
    module, inputs = linear(structure, options, None)
    kind, autocast, tolerance = PRECISIONS[precision]
    module.to(kind).eval()
    again = linear(structure, options, None)[0].to(kind).eval()
    again.load_state_dict(module.state_dict())
    with torch.inference_mode(), torch.autocast("cpu", autocast) if autocast else nullcontext():
        outputs = module(inputs.to(kind))
        assert torch.equal(again(inputs.to(kind)), outputs)
        plain = folded(module)(inputs.to(kind))
    atol = tolerance * float(outputs.abs().max())
    torch.testing.assert_close(plain.double(), outputs.double(), rtol=0, atol=atol)
