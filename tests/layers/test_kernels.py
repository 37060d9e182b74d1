"""Kernels for a few rows: all compute the same, and each number of rows keeps one."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from phmrun.layers import kernels
from phmrun.layers.kernels import KERNELS, MOST_ROWS, FewRows, fastest

SIZES = st.integers(1, 40)


@given(SIZES, SIZES, st.integers(1, 20), st.booleans(), st.sampled_from(sorted(KERNELS)))
@settings(max_examples=40, deadline=None)
def test_all_kernels_compute_the_same(out_features, in_features, rows, biased, name):
    weight, inputs = torch.randn(out_features, in_features), torch.randn(rows, in_features)
    bias = torch.randn(out_features) if biased else None
    if not kernels._works(name, inputs):
        pytest.skip("not in this build")
    with torch.inference_mode():
        outputs = KERNELS[name](weight, bias, rows)(inputs)
    assert outputs.is_contiguous()
    torch.testing.assert_close(outputs, F.linear(inputs, weight, bias))


def test_a_choice_is_made_once_in_a_process(monkeypatch):
    monkeypatch.setattr(kernels, "_CHOSEN", {})
    weight = torch.randn(6, 5)
    first = fastest(weight, None, 4)
    monkeypatch.setattr(kernels, "KERNELS", {})  # a second measurement would find nothing to choose from
    assert fastest(torch.randn(6, 5), None, 4) == first


@pytest.mark.parametrize(("faster", "chosen"), [(0.5, "turned"), (0.95, "linear")])
def test_a_kernel_is_chosen_that_is_clearly_faster(monkeypatch, faster, chosen):
    clock = [0.0]

    def lasting(seconds):
        def apply(inputs):
            clock[0] += seconds

        return lambda weight, bias, rows: apply

    monkeypatch.setattr(kernels, "_CHOSEN", {})
    monkeypatch.setattr(kernels, "KERNELS", {"linear": lasting(1.0), "turned": lasting(faster)})
    monkeypatch.setattr(kernels.time, "perf_counter", lambda: clock[0])
    assert fastest(torch.randn(6, 5), None, 4) == chosen


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_rows_up_to_a_power_of_two_share_a_kernel(monkeypatch, name):
    asked = []
    monkeypatch.setattr(kernels, "fastest", lambda weight, bias, rows: asked.append(rows) or name)
    weight, bias = torch.randn(6, 5), torch.randn(6)
    apply = FewRows(weight, bias)
    for rows in (1, 3, 4, 2, 3, 5, 8, MOST_ROWS + 1):
        inputs = torch.randn(rows, 5)
        torch.testing.assert_close(apply(inputs), F.linear(inputs, weight, bias))
    assert asked == [1, 4, 2, 8]


def test_other_precisions_are_left_to_torch(monkeypatch):
    monkeypatch.setattr(kernels, "fastest", None)
    weight, inputs = torch.randn(6, 5, dtype=torch.double), torch.randn(2, 5, dtype=torch.double)
    assert torch.equal(FewRows(weight, None)(inputs), F.linear(inputs, weight))
