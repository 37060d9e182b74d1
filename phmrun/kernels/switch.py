"""torch's supported switch that sends float32 products to oneDNN.

``torch.backends.mkldnn.matmul.fp32_precision = "bf16"`` allows oneDNN to compute in bfloat16. Processors without AMX
have no such kernel, so oneDNN computes in float32 there. The probe of accuracy
(:mod:`phmrun.kernels.probe`) tells both apart.
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
def tf32_products(active: bool = True) -> Iterator[None]:
    """Compute float32 products on a GPU in TensorFloat-32 inside the block.

    The earlier setting is restored at its end. Without ``active``, change nothing.
    """
    if not active:
        yield
        return
    products: Any = torch.backends.cuda.matmul
    # The newer setting and the older one must not be mixed.
    name, value = ("fp32_precision", "tf32") if hasattr(products, "fp32_precision") else ("allow_tf32", True)
    before = getattr(products, name)
    setattr(products, name, value)
    try:
        yield
    finally:
        setattr(products, name, before)


def float32_precision() -> str:
    """Return torch's setting for float32 products: ``highest`` by default.

    torch's own getter raises after the newer setters were used. Then the result is their values, such as "mkldnn bf16,
    cuda tf32".
    """
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return f"mkldnn {switched()}, cuda {torch.backends.cuda.matmul.fp32_precision}"
