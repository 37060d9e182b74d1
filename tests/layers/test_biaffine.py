"""Biaffine scores against loops over pairs; gradients; folding."""

import pytest
import torch

from phmrun.layers import Biaffine, for_inference

RELEASED = {"variant": "released"}
STRUCTURES = [
    *(("dense", {}), ("symmetric", {}), ("circulant", {}), ("phm", {"n": 3})),
    *(("symmetric", RELEASED), ("circulant", RELEASED)),
]
TERMS = [(True, True, True), (True, True, False), (True, False, True), (False, True, True), (False, False, False)]


def drawn(*args, **options):
    """A module whose every parameter is random, in double precision."""
    torch.manual_seed(0)
    module = Biaffine(*args, **options).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def by_hand(module, x, y):
    """xᵀ W y + u·x + v·y + c for one pair at a time, ``[labels]``."""
    scores = []
    for label, structure in enumerate(module.maps):
        score = x @ structure.materialize() @ y
        if module.u is not None:
            score = score + module.u[label] @ x
        if module.v is not None:
            score = score + module.v[label] @ y
        if module.c is not None:
            score = score + module.c[label]
        scores.append(score)
    return torch.stack(scores)


@pytest.mark.parametrize(("structure", "options"), STRUCTURES, ids=lambda case: str(case))
@pytest.mark.parametrize("terms", TERMS, ids=str)
@pytest.mark.parametrize("labels", [1, 4])
def test_scores_equal_a_loop_over_pairs(structure, options, terms, labels):
    bias_x, bias_y, constant = terms
    size = 9
    module = drawn(size, labels, bias_x, bias_y, constant=constant, structure=structure, **options)
    x, y = torch.randn(2, 5, size).double(), torch.randn(2, 3, size).double()
    expected = torch.stack(
        [
            torch.stack([torch.stack([by_hand(module, a, b) for b in ys]) for a in xs])
            for xs, ys in zip(x, y, strict=True)
        ]
    ).permute(0, 3, 1, 2)
    actual = module(x, y)
    assert actual.shape == ((2, 5, 3) if labels == 1 else (2, labels, 5, 3))
    torch.testing.assert_close(actual.view(2, labels, 5, 3), expected)
    heads = torch.randint(0, 3, (2, 5))
    aligned = module.pairs(x, y.gather(1, heads.unsqueeze(-1).expand(-1, -1, size)))
    wanted = expected.gather(3, heads[:, None, :, None].expand(-1, labels, -1, 1)).squeeze(3).transpose(1, 2)
    torch.testing.assert_close(aligned, wanted)


@pytest.mark.parametrize(("structure", "options"), STRUCTURES, ids=lambda case: str(case))
@pytest.mark.parametrize("labels", [1, 2])
def test_gradients_of_biaffine_scores(structure, options, labels):
    module = drawn(6, labels, structure=structure, **options)
    names = [name for name, _ in module.named_parameters()]

    def scores(x, y, *parameters):
        state = dict(zip(names, parameters, strict=True))
        full = torch.func.functional_call(module, state, (x, y))
        return full.sum((-2, -1))

    x, y = (torch.randn(2, length, 6).double().requires_grad_() for length in (3, 2))
    assert torch.autograd.gradcheck(scores, (x, y, *(p.detach().clone().requires_grad_() for p in module.parameters())))
    module.pairs(x, x.detach().roll(1, 1)).sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in module.parameters())


@pytest.mark.parametrize(("structure", "options"), STRUCTURES, ids=lambda case: str(case))
@pytest.mark.parametrize("application", ["dense", "factored"])
def test_for_inference_keeps_what_is_faster_than_dense(structure, options, application):
    module = drawn(12, 4, structure=structure, **options)
    copied = for_inference(module, application)
    kept = structure in ("symmetric", "circulant")
    assert {part.name for part in copied.maps} == {structure if kept else "dense"}
    assert not any(parameter.requires_grad for parameter in copied.parameters())
    x, y = torch.randn(2, 5, 12).double(), torch.randn(2, 3, 12).double()
    torch.testing.assert_close(copied(x, y), module(x, y))


@pytest.mark.parametrize("structure", ["dense", "phm"])
def test_scores_have_unit_variance_at_first(structure):
    torch.manual_seed(0)
    scores = Biaffine(64, structure=structure)(torch.randn(8, 20, 64), torch.randn(8, 20, 64))
    assert 0.8 < scores.std().item() < 1.25
