"""Structure × wrapper × precision × application × module: every pair of them.

Each combination has a forward and backward pass beside 64 bits and resumes bit for bit. Each structure in each wrapper
is folded, exported, and fitted to a matrix, as ``phmrun compress`` does.
"""

import copy
from contextlib import nullcontext
from functools import cache
from typing import Any

import pytest
import torch
from pairwise import pairwise
from structure_cases import CASES, SQUARE_CASES

from phmrun.layers import Embedding, Linear, convert, folded, load, options_of, save
from phmrun.layers.fitting import energy_kept
from phmrun.registry import STRUCTURES

SIZE, TOKENS = 16, 5
WRAPPERS = [name for name in STRUCTURES.names() if {"of", "options"} <= options_of(name).model_fields.keys()]
"""Structures that are made of another one, which their options name."""

PRECISIONS = {
    "64": (torch.float64, None, 1e-10),
    "32": (torch.float32, None, 1e-4),
    "bf16-mixed": (torch.float32, torch.bfloat16, 0.1),
    "16-mixed": (torch.float32, torch.float16, 0.02),
}
"""Type of the parameters, that of autocast, and the largest error beside 64 bits."""
TYPES = {"64": torch.float64, "32": torch.float32, "bf16": torch.bfloat16, "16": torch.float16}
PARTS = ("linear-dense", "linear-factored", "embedding")
PLAIN = {str(case.id): case.values for case in [*CASES, *SQUARE_CASES] if case.values[0] not in WRAPPERS}


def wrapped(case: str, wrapper: str) -> tuple[str, dict[str, Any]]:
    """Structure and its options, within a wrapper unless that is ``alone``."""
    name, options = PLAIN[case]
    if wrapper == "alone":
        return name, options
    return wrapper, {"of": name, "options": " ".join(f"{key}={value}" for key, value in options.items())}


@cache
def misfit(case: str, wrapper: str) -> str | None:
    name, options = wrapped(case, wrapper)
    return STRUCTURES.get(name).misfit(SIZE, SIZE, **options)


def fits(case: str, wrapper: str, *_: str) -> bool:
    return misfit(case, wrapper) is None


def built(case, wrapper, part):
    torch.manual_seed(0)
    name, options = wrapped(case, wrapper)
    if part == "embedding":
        return Embedding(SIZE, SIZE, structure=name, **options), torch.randint(SIZE, (TOKENS,))
    application = part.removeprefix("linear-")
    return Linear(SIZE, SIZE, structure=name, application=application, **options), torch.randn(TOKENS, SIZE)


def cast(inputs, kind):
    return inputs.to(kind) if inputs.is_floating_point() else inputs


def mixed(autocast):
    return torch.autocast("cpu", autocast) if autocast else nullcontext()


TRAINED = pairwise([list(PLAIN), ["alone", *WRAPPERS], PARTS, list(PRECISIONS)], fits)
STORED = pairwise([list(PLAIN), ["alone", *WRAPPERS], list(TYPES)], fits)


@pytest.mark.parametrize(("case", "wrapper", "part", "precision"), TRAINED)
def test_forward_and_backward_equal_64_bits(case, wrapper, part, precision):
    module, inputs = built(case, wrapper, part)
    kind, autocast, tolerance = PRECISIONS[precision]
    exact = copy.deepcopy(module).double()
    expected = exact(cast(inputs, torch.float64))
    weights = torch.randn(TOKENS, SIZE)
    (expected * weights).sum().backward()
    module.to(kind)
    with mixed(autocast):
        outputs = module(cast(inputs, kind))
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


@pytest.mark.parametrize(("case", "wrapper", "part", "precision"), TRAINED)
def test_resume_is_bit_identical(case, wrapper, part, precision, tmp_path):
    kind, autocast, _ = PRECISIONS[precision]

    def start():
        module, inputs = built(case, wrapper, part)
        module.to(kind)
        return module, torch.optim.Adam([p for p in module.parameters() if p.requires_grad], 0.01), cast(inputs, kind)

    def trained(module, optimizer, inputs, steps):
        for step in steps:
            optimizer.zero_grad()
            with mixed(autocast):
                outputs = module(inputs)
            (outputs.float() - step).square().mean().backward()
            optimizer.step()
        return module.state_dict()

    module, optimizer, inputs = start()
    trained(module, optimizer, inputs, range(2))
    torch.save([module.state_dict(), optimizer.state_dict()], tmp_path / "last.ckpt")
    expected = trained(module, optimizer, inputs, range(2, 4))
    again, optimizer, _ = start()
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.add_(parameter.requires_grad)
    weights, state = torch.load(tmp_path / "last.ckpt", weights_only=True)
    again.load_state_dict(weights)
    optimizer.load_state_dict(state)
    resumed = trained(again, optimizer, inputs, range(2, 4))
    assert all(torch.equal(resumed[name], tensor) for name, tensor in expected.items())


@pytest.mark.parametrize(("case", "wrapper", "kind"), STORED)
@torch.no_grad()
def test_folded_and_exported_copies_compute_the_same(case, wrapper, kind, tmp_path):
    name, options = wrapped(case, wrapper)
    torch.manual_seed(0)
    parts = torch.nn.Sequential(torch.nn.Embedding(SIZE, SIZE), torch.nn.Linear(SIZE, SIZE)).to(TYPES[kind])
    model = convert(parts, name, **options).eval()
    loaded = load(lambda: copy.deepcopy(parts), save(model, tmp_path / "model.safetensors")).eval()
    tokens = torch.arange(SIZE)
    assert loaded(tokens).dtype == TYPES[kind]
    assert torch.equal(loaded(tokens), model(tokens))
    plain = folded(model)(tokens)
    error = 0.05 if kind in ("bf16", "16") else 1e-4
    torch.testing.assert_close(plain, model(tokens), rtol=error, atol=error * float(plain.abs().max()))


@pytest.mark.parametrize(("case", "wrapper", "kind"), STORED)
def test_compression_fits_every_structure(case, wrapper, kind):
    torch.manual_seed(0)
    name, options = wrapped(case, wrapper)
    model = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE)).to(TYPES[kind])
    fitted = convert(model, name, weights="nearest", **options)[0].structure
    assert {parameter.dtype for parameter in fitted.parameters()} <= {TYPES[kind]}
    assert energy_kept(model[0].weight.detach().double(), fitted.eval().materialize().detach().double()) > 0
