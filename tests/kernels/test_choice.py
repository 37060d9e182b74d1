"""Choice of the library of products: by processor, versions and accuracy; attention exempt; nothing global."""

import os

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from phmrun.kernels import choice, processor, switch
from phmrun.kernels.attention import attend
from phmrun.kernels.choice import Choice, choose, largest_error, products_of
from phmrun.kernels.switch import NATIVE, ONEDNN, float32_precision, onednn_products, switched
from phmrun.layers import Linear

pytestmark = pytest.mark.skipif(not switch.has_switch(), reason="this torch has no switch")
SHAPES = [(1, 48, 32), (4, 16, 8)]


@pytest.fixture(autouse=True)
def restored():
    """The process as it was."""
    before = switched()
    yield
    assert switched() == before
    switch.switch(before)


@pytest.fixture
def amd(monkeypatch):
    """A processor on which the switch computes in float32."""
    for name in (choice.LIMIT, *choice.CACHES):
        monkeypatch.setenv(name, "")  # so that it is restored, whatever sets it
        monkeypatch.delenv(name)
    monkeypatch.setattr(choice, "amd_family", lambda: choice.ZEN5)
    monkeypatch.setattr(choice, "has_avx512", lambda: True)
    monkeypatch.setattr(choice, "largest_error", lambda products: 4e-7)
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: True)


@pytest.mark.parametrize("family", [0, 25])
def test_auto_takes_onednn_on_zen_5_and_torch_elsewhere(amd, monkeypatch, family):
    assert choose("auto", lambda: SHAPES).library == "onednn"
    assert {os.environ[name] for name in choice.CACHES} == {"16"}
    monkeypatch.setattr(choice, "amd_family", lambda: family)
    assert choose("auto", lambda: pytest.fail("no probe is needed")).library == "torch"


@pytest.mark.parametrize("requested", ["auto", "onednn"])
@pytest.mark.parametrize("error", [2e-6, 3e-3, float("nan")])
def test_inaccurate_products_are_refused(amd, monkeypatch, requested, error):
    monkeypatch.setattr(choice, "largest_error", lambda products: error)
    actual = choose(requested, lambda: SHAPES)
    assert (actual.library, actual.refused) == ("torch", requested == "onednn")
    assert "error" in actual.reason


@pytest.mark.parametrize("missing", ["has_switch", "has_avx512"])
def test_without_the_switch_or_its_instructions_torch_computes(amd, monkeypatch, missing):
    monkeypatch.setattr(choice, missing, lambda: False)
    assert choose("auto", lambda: SHAPES).library == "torch"
    assert choose("onednn", lambda: SHAPES).refused


def test_the_probe_sees_half_precision(monkeypatch):
    assert largest_error(SHAPES) < 1e-6
    exact = torch.Tensor.__matmul__

    def rounded(left, right):
        if left.dtype == torch.float32:
            return exact(left.bfloat16(), right.bfloat16()).float()
        return exact(left, right)

    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert largest_error(SHAPES) > 1e-3


def test_products_of_a_network():
    network = nn.Sequential(
        Linear(32, 48), Linear(32, 48), Linear(64, 64, structure="monarch"), nn.Embedding(50_000, 16)
    )
    shapes = products_of(network)
    assert {(1, 48, 32), (1, 64, 64), (1, choice.LARGEST, 16)} <= set(shapes)
    assert any(batch > 1 for batch, _, _ in shapes)
    assert len(shapes) == len(set(shapes))


def test_attention_is_exempt_forward_and_backward():
    seen = []

    class Spy(torch.autograd.Function):
        """Sees the switch in the middle of attention."""

        @staticmethod
        def forward(ctx, values):
            seen.append(("forward", switched()))
            return values.clone()

        @staticmethod
        def backward(ctx, gradient):
            seen.append(("backward", switched()))
            return gradient

    plain = F.scaled_dot_product_attention
    with pytest.MonkeyPatch.context() as patch, onednn_products():
        patch.setattr(F, "scaled_dot_product_attention", lambda *a, **k: Spy.apply(plain(*a, **k)))
        vectors = [torch.randn(2, 3, 5, 4, requires_grad=True) for _ in range(3)]
        outputs = attend(*vectors, causal=True)
        assert switched() == ONEDNN
        outputs.sum().backward()
        assert switched() == ONEDNN
    assert seen == [("forward", NATIVE), ("backward", NATIVE)]
    expected = plain(*vectors, is_causal=True)
    torch.testing.assert_close(outputs, expected)
    for vector, gradient in zip(vectors, torch.autograd.grad(expected.sum(), vectors), strict=True):
        torch.testing.assert_close(vector.grad, gradient)


@pytest.mark.parametrize("newer", [False, True])
@pytest.mark.parametrize("tf32", [True, False])
def test_a_gpu_has_the_same_arithmetic_for_products_lstms_and_convolutions(tf32, newer, monkeypatch):
    """torch's own default is TensorFloat-32 for LSTMs and convolutions, and float32 for products."""
    products, lstms, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn.rnn, torch.backends.cudnn.conv
    usual = torch.backends.cudnn.allow_tf32, products.allow_tf32
    with Choice("torch", "as set", tf32=tf32).applied():
        assert (torch.backends.cudnn.allow_tf32, products.allow_tf32) == usual == (True, False)  # no GPU is here
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    if newer:  # as a plug-in may have done
        products.fp32_precision = "tf32"
    with Choice("torch", "as set", tf32=tf32).applied():
        used = [products.fp32_precision, lstms.fp32_precision, convolutions.fp32_precision]
        assert [value == "tf32" for value in used] == [tf32] * 3
        assert torch.backends.cudnn.allow_tf32 is products.allow_tf32 is tf32  # readable, as torch.compile needs
        assert float32_precision() == ("high" if tf32 else "highest")
    assert products.fp32_precision == "tf32" if newer else products.allow_tf32 is usual[1]
    assert torch.backends.cudnn.allow_tf32 is usual[0]
    products.allow_tf32 = usual[1]


def test_the_family_of_a_processor(monkeypatch, tmp_path):
    monkeypatch.setattr(processor, "CPU_INFO", tmp_path / "cpuinfo")
    for vendor, family, expected in (("AuthenticAMD", 26, 26), ("GenuineIntel", 6, 0)):
        (tmp_path / "cpuinfo").write_text(f"vendor_id\t: {vendor}\ncpu family\t: {family}\n")
        assert processor.amd_family() == expected
