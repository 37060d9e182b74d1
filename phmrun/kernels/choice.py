"""Choice of the library that computes a run's float32 products on the CPU, and of TensorFloat-32 on a GPU.

It depends on the processor, the versions of the libraries and the accuracy probe, never on timings or load. Two runs on
one machine therefore make the same choice. torch's default is MKL; on AMD processors oneDNN is twice as fast.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch

from phmrun.kernels.probe import Product, largest_error
from phmrun.kernels.processor import has_avx512, is_amd
from phmrun.kernels.switch import gpu_products, has_switch, onednn_products

Library = Literal["torch", "onednn"]
TOLERANCE = 1e-6
"""Largest relative error of a product against float64."""
LIMIT = "ONEDNN_MAX_CPU_ISA"
"""Environment variable that limits oneDNN's instruction set; oneDNN reads it at its first product."""


@dataclass(frozen=True)
class Choice:
    """Library of the products, and the reason for it.

    Attributes:
        library: "torch": torch's default library; or "onednn".
        reason: One line for the log and the record.
        refused: True if oneDNN was asked for and cannot be used.
        tf32: True if a GPU computes float32 products in TensorFloat-32.
    """

    library: Library
    reason: str
    refused: bool = False
    tf32: bool = False

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Compute float32 products by this library inside the block; on a GPU, in TF32 or in float32."""
        with onednn_products(self.library == "onednn"), gpu_products(self.tf32):
            yield


def choose(requested: str, products: Callable[[], Sequence[Product]]) -> Choice:
    """Choose the library of the products, with its reason.

    oneDNN is chosen only if its products have a relative error below 1e-6 (``TOLERANCE``) against float64. A request
    for oneDNN sets the environment variable ``ONEDNN_MAX_CPU_ISA`` to AVX512_CORE, unless it is set already.

    Args:
        requested: "torch", "onednn", or "auto": oneDNN on processors by AMD, if torch has MKL.
        products: Returns the weight shapes of the run; called only if oneDNN is possible.

    Returns:
        "onednn" if it is requested or advisable, and passes the probe. Otherwise "torch": if the switch, AVX-512 or
        exactness is missing, or oneDNN fails. It has ``refused`` if oneDNN was requested.
    """
    if requested == "torch":
        return Choice("torch", "as set")
    asked = requested == "onednn"
    if not has_switch():
        return Choice("torch", f"torch {torch.__version__} cannot send float32 products to oneDNN", asked)
    if not has_avx512():
        return Choice("torch", "oneDNN takes float32 products only on processors with AVX-512", asked)
    if not asked and not is_amd():
        return Choice("torch", "MKL runs at full speed on this processor")
    if not asked and not torch.backends.mkl.is_available():
        return Choice("torch", "this torch has no MKL to replace")
    if asked:
        # With AMX oneDNN would compute in bfloat16. Asking it for its instruction set would fix that set.
        os.environ.setdefault(LIMIT, "AVX512_CORE")
    try:
        with onednn_products():
            error = largest_error(products())
    except (AttributeError, NotImplementedError, RuntimeError) as failure:
        return Choice("torch", f"oneDNN failed: {str(failure).splitlines()[0] if str(failure) else failure!r}", asked)
    if not error < TOLERANCE:
        hint = f"; {LIMIT}=AVX512_CORE in the environment limits it to float32" if asked else ""
        return Choice("torch", f"oneDNN's products have an error of {error:.1e}, above {TOLERANCE:.0e}{hint}", asked)
    return Choice("onednn", f"largest error of a product {error:.1e} against float64")
