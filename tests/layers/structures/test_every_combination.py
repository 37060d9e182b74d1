"""Structure × wrapper × precision × application × module, generated.

Each combination has one forward and backward pass beside 64 bits, is exported, and resumes bit for bit; each structure
and wrapper is fitted to a matrix in every type, as ``phmrun compress`` does.
"""

import copy
from contextlib import nullcontext

import pytest
import torch
from structure_cases import CASES, SQUARE_CASES

from phmrun.layers import Embedding, Linear, convert, folded, load, options_of, save
from phmrun.layers.fitting import energy_kept
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


def trained(module, optimizer, inputs, autocast, steps):
    """Take optimizer steps; return all parameters."""
    for step in steps:
        optimizer.zero_grad()
        with torch.autocast("cpu", autocast) if autocast else nullcontext():
            outputs = module(inputs.to(module.weight_type) if inputs.is_floating_point() else inputs)
        (outputs.float() - step).square().mean().backward()
        optimizer.step()
    return module.state_dict()


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize(
    ("build", "application"), [(linear, "dense"), (linear, "factored"), (embedding, "rows")],
    ids=["linear-dense", "linear-factored", "embedding"],
)  # fmt: skip
@pytest.mark.parametrize(("structure", "options"), list(combinations()))
def test_resume_is_bit_identical_in_every_combination(structure, options, build, application, precision, tmp_path):
    kind, autocast, _ = PRECISIONS[precision]

    def start(seed):
        torch.manual_seed(seed)
        module, inputs = build(structure, options, application)
        module.to(kind).weight_type = kind
        return module, torch.optim.Adam([p for p in module.parameters() if p.requires_grad], 0.01), inputs

    module, optimizer, inputs = start(0)
    trained(module, optimizer, inputs, autocast, range(2))
    torch.save([module.state_dict(), optimizer.state_dict()], tmp_path / "last.ckpt")
    expected = trained(module, optimizer, inputs, autocast, range(2, 4))
    again, optimizer, _ = start(0)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.add_(parameter.requires_grad)
    weights, state = torch.load(tmp_path / "last.ckpt", weights_only=True)
    again.load_state_dict(weights)
    optimizer.load_state_dict(state)
    resumed = trained(again, optimizer, inputs, autocast, range(2, 4))
    assert all(torch.equal(resumed[name], tensor) for name, tensor in expected.items())


DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("kind", DTYPES, ids=["64", "32", "bf16", "16"])
@pytest.mark.parametrize(("structure", "options"), list(combinations()))
@torch.no_grad()
def test_exported_factors_have_equal_outputs_in_every_combination(structure, options, kind, tmp_path):
    torch.manual_seed(0)
    parts = torch.nn.Sequential(torch.nn.Embedding(SIZE, SIZE), torch.nn.Linear(SIZE, SIZE)).to(kind)
    model = convert(parts, structure, **options).eval()
    loaded = load(lambda: copy.deepcopy(parts), save(model, tmp_path / "model.safetensors")).eval()
    tokens = torch.arange(SIZE)
    assert loaded(tokens).dtype == kind
    assert torch.equal(loaded(tokens), model(tokens))
    plain = folded(model)(tokens)
    error = 0.05 if kind in DTYPES[2:] else 1e-4
    torch.testing.assert_close(plain, model(tokens), rtol=error, atol=error * float(plain.abs().max()))


@pytest.mark.parametrize("kind", DTYPES, ids=["64", "32", "bf16", "16"])
@pytest.mark.parametrize(("structure", "options"), list(combinations()))
def test_compression_fits_every_combination(structure, options, kind):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(SIZE, SIZE)).to(kind)
    fitted = convert(model, structure, weights="nearest", **options)[0].structure
    assert {parameter.dtype for parameter in fitted.parameters()} <= {kind}
    assert energy_kept(model[0].weight.detach().double(), fitted.eval().materialize().detach().double()) > 0
