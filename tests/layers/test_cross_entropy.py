"""The fused output map and loss against ``F.cross_entropy`` of ``F.linear``."""

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from phmrun.layers.cross_entropy import CHUNK, linear_cross_entropy

WIDTH, VOCABULARY = 12, 40


def problem(positions, *, bias, dtype=torch.float64):
    torch.manual_seed(positions)
    hidden = torch.randn(positions, WIDTH, dtype=dtype)
    weight = torch.randn(VOCABULARY, WIDTH, dtype=dtype)
    targets = torch.randint(VOCABULARY, (positions,))
    return hidden, weight, torch.randn(VOCABULARY, dtype=dtype) if bias else None, targets


def leaves(hidden, weight, bias):
    return [None if tensor is None else tensor.clone().requires_grad_() for tensor in (hidden, weight, bias)]


@pytest.mark.parametrize("positions", [1, 7, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("bias", [True, False])
def test_losses_and_gradients_equal_the_plain_computation(positions, smoothing, bias):
    *inputs, targets = problem(positions, bias=bias)
    ours, theirs = leaves(*inputs), leaves(*inputs)
    loss, nll = linear_cross_entropy(*ours, targets, smoothing=smoothing)
    logits = F.linear(*theirs)
    expected = F.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(nll, F.cross_entropy(logits, targets, reduction="sum"))
    assert not nll.requires_grad

    (3.5 * (loss + expected)).backward()
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None:
            torch.testing.assert_close(mine.grad, other.grad)
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:  # as in a validation: without gradients
        linear_cross_entropy(*ours, targets, smoothing=smoothing)
    assert counter.get_total_flops() == 2 * positions * WIDTH * VOCABULARY


def test_large_logits_do_not_overflow():
    *inputs, targets = problem(4, bias=False, dtype=torch.float32)
    hidden, weight, _ = leaves(inputs[0] * 1e3, inputs[1], None)
    loss = linear_cross_entropy(hidden, weight, None, targets)[0]
    loss.backward()
    expected = F.cross_entropy(F.linear(hidden, weight).double(), targets, reduction="sum").float()
    torch.testing.assert_close(loss, expected)
    assert bool(hidden.grad.isfinite().all())


@pytest.mark.parametrize("bias", [True, False])
def test_under_autocast_it_agrees_to_the_precision_of_bfloat16(bias):
    *inputs, targets = problem(CHUNK + 100, bias=bias, dtype=torch.float32)
    ours, theirs = leaves(*inputs), leaves(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        loss, nll = linear_cross_entropy(*ours, targets, smoothing=0.1)
    assert loss.dtype == nll.dtype == torch.float32
    expected = F.cross_entropy(F.linear(*theirs), targets, label_smoothing=0.1, reduction="sum")
    torch.testing.assert_close(loss, expected, rtol=0.01, atol=0.0)
    (loss + expected).backward()
    for mine, other in zip(ours, theirs, strict=True):
        if mine is not None:
            assert mine.grad.dtype == torch.float32
            assert float((mine.grad - other.grad).norm() / other.grad.norm()) < 0.02
