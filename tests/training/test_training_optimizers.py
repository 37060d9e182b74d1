"""Learning rates by their closed forms, and updates by hand."""

import math

import pytest
import torch
from torch import nn

from phmrun.errors import PhmrunError
from phmrun.training.optimizers import build_optimizer, build_schedule


@pytest.mark.parametrize(("warmup", "factor", "width"), [(4000, 1.0, 512), (16000, 2.0, 512), (10, 0.5, 16)])
def test_noam_rises_to_its_peak_at_the_end_of_the_warmup_and_falls_as_the_root(warmup, factor, width):
    rate = build_schedule(name="noam", warmup=warmup, factor=factor, width=width)
    peak = factor / math.sqrt(width * warmup)
    assert rate(warmup) == pytest.approx(peak)
    assert rate(warmup) == max(rate(step) for step in range(1, 3 * warmup))
    assert rate(1) == pytest.approx(peak / warmup)
    assert rate(warmup // 2) == pytest.approx(peak / 2)
    assert rate(4 * warmup) == pytest.approx(peak / 2)


def test_inverse_square_root():
    rate = build_schedule(name="inverse-sqrt", warmup=100, lr=0.01)
    assert [rate(step) for step in (1, 50, 100, 400, 10_000)] == pytest.approx([0.0001, 0.005, 0.01, 0.005, 0.001])


def test_constant():
    rate = build_schedule(name="constant", warmup=10, lr=0.01)
    assert [rate(step) for step in (1, 5, 10, 11, 10**6)] == pytest.approx([0.001, 0.005, 0.01, 0.01, 0.01])


@pytest.mark.parametrize(("name", "later"), [("constant", 1.0), ("inverse-sqrt", 0.5)])
def test_no_warmup_starts_at_the_peak(name, later):
    rate = build_schedule(name=name, warmup=0, lr=1.0)
    assert (rate(1), rate(4)) == (1.0, later)


def test_unknown_names_are_refused_with_the_nearest():
    with pytest.raises(PhmrunError, match="there is no schedule 'nom'") as caught:
        build_schedule(name="nom")
    assert "noam" in caught.value.valid
    assert caught.value.where == "training.schedule.name"
    with pytest.raises(PhmrunError, match="Did you mean 'adam' or 'adamw'"):
        build_optimizer([], name="adamv")


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("name", "decay"), [("adam", 0.0), ("adam", 0.1), ("adamw", 0.1)])
def test_two_updates_by_hand(name, decay, fused):
    """Kingma and Ba's algorithm 1; the decay joins the gradient (adam) or shrinks the weight (adamw)."""
    beta1, beta2, eps = 0.9, 0.98, 1e-9
    weight = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    optimizer = build_optimizer([weight], name=name, betas=(beta1, beta2), eps=eps, weight_decay=decay, fused=fused)
    optimizer.param_groups[0]["lr"] = rate = 0.01
    expected, mean, square = 2.0, 0.0, 0.0
    for step, gradient in ((1, 3.0), (2, -1.0)):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        if name == "adam":
            gradient += decay * expected
        else:
            expected -= rate * decay * expected
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        expected -= rate * (mean / (1 - beta1**step)) / (math.sqrt(square / (1 - beta2**step)) + eps)
        assert float(weight.detach()) == pytest.approx(expected, rel=1e-9)
