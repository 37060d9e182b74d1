"""Accuracy of a run's own matrix products, measured against float64."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

ROWS = 512
"""Rows of the probe's inputs."""
LARGEST = 4096
"""Longer sides of a matrix are probed at this length."""


class Product(NamedTuple):
    """Shape of a weight ``[batch, out_features, in_features]``.

    One matrix has batch 1.
    """

    batch: int
    out_features: int
    in_features: int


def products_of(network: nn.Module) -> list[Product]:
    """Return the distinct weight shapes of a network, sorted.

    They are those of modules with ``out_features`` and ``in_features``, with batch 1, and of all parameters of two or
    more dimensions. Dimensions before the last two are multiplied to the batch. Sides are cut to 4,096 (``LARGEST``).
    """
    shapes: set[Product] = set()
    for module in network.modules():
        sides = getattr(module, "out_features", None), getattr(module, "in_features", None)
        if all(isinstance(side, int) for side in sides):
            shapes.add(_product([1, *sides]))  # type: ignore[list-item]
        for parameter in module.parameters(recurse=False):
            if parameter.ndim >= 2:
                shapes.add(_product([parameter.shape[:-2].numel(), *parameter.shape[-2:]]))
    return sorted(shapes)


def _product(shape: Sequence[int]) -> Product:
    """Return a shape as a product, batch and sides each at most 4,096 (``LARGEST``)."""
    return Product(*(min(side, LARGEST) for side in shape))


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
