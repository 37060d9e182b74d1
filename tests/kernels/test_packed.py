"""Kernels for a few rows: all compute the same, and weights are packed once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from phmrun.kernels import packed
from phmrun.kernels.packed import KERNELS, FewRows

SIZES = st.integers(1, 40)


@pytest.fixture
def anew():
    """Try the kernels anew, in this test and after it."""
    packed._works.cache_clear()
    yield
    packed._works.cache_clear()


@given(SIZES, SIZES, st.integers(1, 20), st.booleans(), st.sampled_from(sorted(KERNELS)))
@settings(max_examples=40, deadline=None)
def test_all_kernels_compute_the_same(out_features, in_features, rows, biased, name):
    weight, inputs = torch.randn(out_features, in_features), torch.randn(rows, in_features)
    bias = torch.randn(out_features) if biased else None
    if not packed._works(name, torch.float32):
        pytest.skip("not in this build")
    with torch.inference_mode():
        outputs = KERNELS[name](weight, bias)(inputs)
    assert outputs.is_contiguous()
    torch.testing.assert_close(outputs, F.linear(inputs, weight, bias))


@pytest.mark.parametrize(("family", "kernels"), [(25, {"onednn"}), (0, {"linear", "mkl"})])
def test_weights_are_packed_once_for_all_rows_where_that_is_faster(monkeypatch, anew, family, kernels):
    packings = []
    chosen = {name: lambda *_, name=name: packings.append(name) or (lambda inputs: inputs) for name in KERNELS}
    monkeypatch.setattr(packed, "KERNELS", chosen)
    monkeypatch.setattr(packed, "amd_family", lambda: family)
    apply = FewRows(torch.randn(6, 5), None)
    packings.clear()  # the trial that shows that the kernel exists
    for rows in (1, 5, 64, 320):
        apply.for_rows(rows)
    assert sorted(packings) == sorted(kernels)


@pytest.mark.parametrize("features", [(17, 5), (256, 64)])
def test_mkl_weights_packed_once_serve_every_number_of_rows(features):
    weight, bias = torch.randn(features), torch.randn(features[0])
    if not packed._works("mkl", torch.float32):
        pytest.skip("not in this build")
    apply = packed._mkl(weight, bias)
    for rows in (*range(1, 40), packed.PACKED_ROWS - 1, packed.PACKED_ROWS + 1):
        inputs = torch.randn(rows, features[1])
        torch.testing.assert_close(apply(inputs), F.linear(inputs, weight, bias))


def test_without_the_private_operator_torch_s_own_is_used(monkeypatch, anew):
    class Removed:
        def __getattr__(self, name):
            raise AttributeError(name)

    monkeypatch.setattr(packed, "amd_family", lambda: 25)
    monkeypatch.setattr(torch.ops, "mkldnn", Removed())
    weight, bias = torch.randn(6, 5), torch.randn(6)
    apply = FewRows(weight, bias)
    for rows in (1, 3, 320):
        inputs = torch.randn(rows, 5)
        torch.testing.assert_close(apply.for_rows(rows)(inputs), F.linear(inputs, weight, bias))
