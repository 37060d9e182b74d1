"""torch's supported switches of float32 products: oneDNN on a CPU, TensorFloat-32 on a GPU.

``torch.backends.mkldnn.matmul.fp32_precision = "bf16"`` allows oneDNN to compute in bfloat16. Processors without AMX
have no such kernel, so oneDNN computes in float32 there. The probe of accuracy
(:mod:`phmrun.kernels.choice`) tells both apart.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

ONEDNN = "bf16"
"""Value of the switch that allows oneDNN."""
NATIVE = "ieee"
"""Value of the switch that keeps products in torch's default library."""


def has_switch() -> bool:
    """Return True if this torch has oneDNN, and the switch."""
    return torch.backends.mkldnn.is_available() and hasattr(_products(), "fp32_precision")


def switched() -> str | None:
    """Return the value of the switch.

    None if this torch has none.
    """
    return str(_products().fp32_precision) if has_switch() else None


def switch(value: str) -> None:
    """Set the switch for the whole process: ``ONEDNN`` or ``NATIVE``.

    Raises:
        AttributeError: This torch has no switch (:func:`has_switch`).
    """
    _products().fp32_precision = value


def _products() -> Any:
    """Return oneDNN's settings of matrix products; None before torch 2.9."""
    return getattr(torch.backends.mkldnn, "matmul", None)


@contextmanager
def onednn_products(active: bool = True) -> Iterator[None]:
    """Send float32 products to oneDNN inside the block.

    The earlier value is restored at its end. Without ``active``, or without the switch, change nothing.
    """
    before = switched() if active else None
    if before is None:
        yield
        return
    switch(ONEDNN)
    try:
        yield
    finally:
        switch(before)


@contextmanager
def gpu_products(tf32: bool) -> Iterator[None]:
    """Compute float32 products on a GPU in TensorFloat-32 inside the block, or without ``tf32`` in float32.

    It concerns matrix products, LSTMs and convolutions. torch itself has TF32 for the latter two, whose results then
    differ from a CPU's by 3e-4 of their size instead of 3e-7. The earlier settings are restored at the end. Without a
    GPU, change nothing.
    """
    if not torch.cuda.is_available():
        yield
        return
    backends: list[Any] = [torch.backends.cuda.matmul, torch.backends.cudnn]
    # These older settings set the newer ones too; torch's getters raise after the newer ones alone were set.
    before = [_allows_tf32(backend) for backend in backends]
    for backend in backends:
        backend.allow_tf32 = tf32
    try:
        yield
    finally:
        for backend, allowed in zip(backends, before, strict=True):
            backend.allow_tf32 = allowed


def _allows_tf32(backend: Any) -> bool:
    """Return a backend's setting; True if only its newer setting was changed."""
    try:
        return bool(backend.allow_tf32)
    except RuntimeError:
        return True


def float32_precision() -> str:
    """Return torch's setting for float32 products: ``highest`` by default.

    torch's own getter raises after the newer setters were used. Then the result is their values, such as "mkldnn bf16,
    cuda tf32".
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return f"mkldnn {switched()}, cuda {torch.backends.cuda.matmul.fp32_precision}"
