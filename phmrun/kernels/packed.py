"""Dense maps of few vectors on a CPU, with weights packed once.

For few rows ``F.linear`` takes longer than a product with packed weights. On processors by AMD those of oneDNN are
taken, for any number of rows; on others those of MKL, for four rows or more. ``python -m benchmarks.decoding`` times
them within a decoder's step. The kernels sum in different orders: results differ in the last digits, also between
machines. Scores are therefore not computed with them.
"""

from collections.abc import Callable, Mapping
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional as F

from phmrun.kernels.processor import amd_family

Map = Callable[[Tensor], Tensor]
"""``[rows, in_features] -> [rows, out_features]``."""
Kernel = Callable[[Tensor, Tensor | None], Map]
"""Function of W and b that returns a map."""

MKL_ROWS = 4
"""Fewest rows for which MKL's packed layout is faster than ``F.linear``."""
PACKED_ROWS = 256
"""Number of rows that weights are packed for; of 1, 8, 64 and 256, MKL's fastest at any number of rows from 4."""


def _linear(weight: Tensor, bias: Tensor | None) -> Map:
    """Return ``F.linear`` with these weights; ``bias`` may be None."""
    return lambda inputs: F.linear(inputs, weight, bias)


def _onednn(weight: Tensor, bias: Tensor | None) -> Map:
    """Return oneDNN's map, with a copy of W in its packed layout.

    It serves any number of rows. ``bias`` may be None.
    """
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_ROWS)
    apply = torch.ops.mkldnn._linear_pointwise.default
    return lambda inputs: apply(inputs, packed, bias, "none", [], "")


def _mkl(weight: Tensor, bias: Tensor | None) -> Map:
    """Return MKL's map, with a copy of W in its packed layout.

    It serves any number of rows, as in CTranslate2, though MKL documents this for one number only.
    ``bias`` may be None.
    """
    weight = weight.contiguous()
    packed = torch.ops.mkl._mkl_reorder_linear_weight(weight, PACKED_ROWS)
    apply = torch.ops.mkl._mkl_linear.default
    return lambda inputs: apply(inputs, packed, weight, bias, len(inputs))


KERNELS: Mapping[str, Kernel] = {"linear": _linear, "onednn": _onednn, "mkl": _mkl}
"""All kernels by name; the others than the first are private operators, which a build of torch may lack."""


def bfloat16_map(weight: Tensor, bias: Tensor | None) -> Map:
    """Return a map of inputs and weights rounded to bfloat16, with float32 outputs.

    On a CPU by oneDNN with packed weights; elsewhere, or if this torch lacks them, by ``F.linear``. ``bias`` may be
    None.
    """
    weight, bias = weight.detach().bfloat16(), None if bias is None else bias.detach().bfloat16()
    packs = weight.device.type == "cpu" and _works("onednn", weight.dtype)
    apply = (_onednn if packs else _linear)(weight, bias)
    return lambda inputs: apply(inputs.bfloat16()).float()


class FewRows:
    """Map y = W x + b without gradients, by the fastest kernel for each number of rows.

    In single precision on a CPU; otherwise ``F.linear`` is used. W is packed at its first use.

    Args:
        weight: W ``[out_features, in_features]``.
        bias: b ``[out_features]`` or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        kernel, self._least = ("onednn", 1) if amd_family() else ("mkl", MKL_ROWS)
        single = weight.device.type == "cpu" and weight.dtype == torch.float32
        self._packed = kernel if single and _works(kernel, torch.float32) else "linear"
        self._by_kernel: dict[str, Map] = {}

    def for_rows(self, rows: int) -> Map:
        """Return the map ``[rows, in_features] -> [rows, out_features]`` of inputs with this number of rows."""
        name = self._packed if rows >= self._least else "linear"
        if name not in self._by_kernel:
            self._by_kernel[name] = KERNELS[name](self.weight, self.bias)
        return self._by_kernel[name]


@cache
def _works(name: str, dtype: torch.dtype) -> bool:
    """Return True if this build of torch has a kernel's operators for weights of a type on the CPU; tried once."""
    ones = torch.ones(8, 8, dtype=dtype)
    try:
        KERNELS[name](ones, None)(ones)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True
