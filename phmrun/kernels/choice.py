"""Choice of the library that computes a run's float32 products on the CPU, and of TensorFloat-32 on a GPU.

It depends on the processor, the versions of the libraries and the accuracy probe, never on timings or load. Two runs on
one machine therefore make the same choice. torch's default is MKL; on AMD processors from Zen 5 on, oneDNN is twice
as fast.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from phmrun.kernels.processor import amd_family, has_avx512
from phmrun.kernels.switch import gpu_products, has_switch, onednn_products

Library = Literal["torch", "onednn"]
TOLERANCE = 1e-6
"""Largest relative error of a product against float64."""
LIMIT = "ONEDNN_MAX_CPU_ISA"
"""Environment variable that limits oneDNN's instruction set; oneDNN reads it at its first product."""
CACHES = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY"
"""Environment variables: capacity of oneDNN's and of torch's cache of products, which are read at the first product.

The usual 1,024 keep about 0.6 MB for each shape: a translator whose batches differ in length takes twice the memory. 16
take no longer: memory that is in use already is faster.
"""
ZEN5 = 26
"""AMD's family of Zen 5. MKL takes half of the speed of its AVX-512 units; on Zen 4 it is as fast as oneDNN."""
ROWS = 512
"""Rows of the probe's inputs."""
LARGEST = 4096
"""Longer sides of a matrix are probed at this length."""


Product = tuple[int, ...]
"""Shape of a weight ``[batch, out_features, in_features]``. One matrix has batch 1."""


def products_of(network: nn.Module) -> list[Product]:
    """Return the distinct weight shapes of a network, sorted.

    They are those of modules with ``out_features`` and ``in_features``, with batch 1, and of all parameters of two or
    more dimensions. Dimensions before the last two are multiplied to the batch. Sides are cut to 4,096 (``LARGEST``).
    """
    shapes: set[Product] = set()
    for module in network.modules():
        sides = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if all(isinstance(side, int) for side in sides):
            shapes.add((1, *sides))  # type: ignore[arg-type]
        for parameter in module.parameters(recurse=False):
            if parameter.ndim >= 2:
                shapes.add((parameter.shape[:-2].numel(), *parameter.shape[-2:]))
    return sorted({tuple(min(side, LARGEST) for side in shape) for shape in shapes})


def largest_error(products: Iterable[Product]) -> float:
    """Return the largest relative error of products and their gradients.

    For each shape W these are x Wᵀ, g W and gᵀ x, with normal W, x and g from a fixed seed. x and g have 512 rows over
    the batch, at least 16. The error is the Frobenius norm of the difference from float64 over the norm of the exact
    product. 0 without products.
    """
    generator = torch.Generator().manual_seed(0)
    largest = 0.0
    for batch, out_features, in_features in products:
        # Many small matrices are probed with fewer rows, so that no probe takes more than some milliseconds.
        rows = max(16, ROWS // batch)
        weight, inputs, gradient = (
            torch.randn(batch, *shape, generator=generator)
            for shape in ((out_features, in_features), (rows, in_features), (rows, out_features))
        )
        for left, right in ((inputs, weight.mT), (gradient, weight), (gradient.mT, inputs)):
            largest = max(largest, _error(left, right))
    return largest


def _error(left: Tensor, right: Tensor) -> float:
    """Return the relative error of a batched product, in the Frobenius norm.

    A batch of one is computed as a plain product.
    """
    if len(left) == 1:
        left, right = left[0], right[0]
    exact = left.double() @ right.double()
    return float(((left @ right).double() - exact).norm() / exact.norm().clamp_min(torch.finfo(torch.double).tiny))


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
    for oneDNN sets the environment variable ``ONEDNN_MAX_CPU_ISA`` to AVX512_CORE, and a probe those of its caches
    (``CACHES``) to 16 products, unless they are set already.

    Args:
        requested: "torch", "onednn", or "auto": oneDNN on AMD processors from Zen 5 on, if torch has MKL.
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
    if not asked and amd_family() < ZEN5:
        return Choice("torch", "MKL runs at full speed on this processor")
    if not asked and not torch.backends.mkl.is_available():
        return Choice("torch", "this torch has no MKL to replace")
    if asked:
        # With AMX oneDNN would compute in bfloat16. Asking it for its instruction set would fix that set.
        os.environ.setdefault(LIMIT, "AVX512_CORE")
    for cache in CACHES:
        os.environ.setdefault(cache, "16")
    try:
        with onednn_products():
            error = largest_error(products())
    except (AttributeError, NotImplementedError, RuntimeError) as failure:
        return Choice("torch", f"oneDNN failed: {str(failure).splitlines()[0] if str(failure) else failure!r}", asked)
    if not error < TOLERANCE:
        hint = f"; {LIMIT}=AVX512_CORE in the environment limits it to float32" if asked else ""
        return Choice("torch", f"oneDNN's products have an error of {error:.1e}, above {TOLERANCE:.0e}{hint}", asked)
    return Choice("onednn", f"largest error of a product {error:.1e} against float64")
