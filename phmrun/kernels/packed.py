"""Dense map of few vectors at a time on a CPU, by the fastest of several kernels that compute the same.

For a few rows ``F.linear`` reads the weights in a way that takes up to four times as long as the others do. The fastest
kernel depends on the machine, the sizes and the number of rows, so it is measured once in a process for each of these,
in a few milliseconds. The kernels sum in different orders: results differ in the last digits, and may differ between
machines. So scores are not computed with them.
"""

import logging
import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

LOG = logging.getLogger("phmrun.kernels")

Map = Callable[[Tensor], Tensor]
"""``[rows, in_features] -> [rows, out_features]``."""
Kernel = Callable[[Tensor, Tensor | None], Map]
"""Makes a map of W and b."""

FEW_ROWS = 128
"""Above this number of rows only the kernels in :data:`MANY_ROWS` are measured."""
ROUNDS = 3
CLEARLY = 0.9
"""Another kernel must take no more than this part of the time of ``F.linear``; less is within the noise."""

_CHOSEN: dict[tuple[int, int, int, int], str] = {}
"""Name of the fastest kernel in this process, by output and input features, rows and threads."""
_MISSING: set[str] = set()
"""Kernels that this torch lacks, as the log has said."""


def _linear(weight: Tensor, bias: Tensor | None) -> Map:
    """As torch computes it."""
    return lambda inputs: F.linear(inputs, weight, bias)


def _turned(weight: Tensor, bias: Tensor | None) -> Map:
    """(W xᵀ)ᵀ."""
    column = None if bias is None else bias.unsqueeze(1)

    def turned(inputs: Tensor) -> Tensor:
        columns = inputs.t()
        outputs = torch.mm(weight, columns) if column is None else torch.addmm(column, weight, columns)
        return outputs.t().contiguous()

    return turned


def _transposed(weight: Tensor, bias: Tensor | None) -> Map:
    """X Wᵀ with a contiguous copy of Wᵀ."""
    columns = weight.t().contiguous()
    return lambda inputs: torch.mm(inputs, columns) if bias is None else torch.addmm(bias, inputs, columns)


def _packed(weight: Tensor, bias: Tensor | None) -> Map:
    """oneDNN's, with W packed in its own layout; one copy serves every number of rows."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, FEW_ROWS)
    apply = torch.ops.mkldnn._linear_pointwise.default
    return lambda inputs: apply(inputs, packed, bias, "none", [], "")


KERNELS: Mapping[str, Kernel] = {"linear": _linear, "turned": _turned, "transposed": _transposed, "packed": _packed}
"""All kernels; every torch has the first."""
MANY_ROWS = ("linear", "packed")


class FewRows:
    """y = W x + b, W ``[out_features, in_features]``, without a gradient, in single precision on a CPU.

    Each number of rows takes the kernel that is the fastest for it; kernels share their copies of W.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self._by_rows: dict[int, Map] = {}
        self._by_kernel: dict[str, Map] = {}

    def __call__(self, inputs: Tensor) -> Tensor:
        """``[rows, in_features] -> [rows, out_features]``."""
        apply = self._by_rows.get(len(inputs))
        if apply is None:
            apply = self._by_rows[len(inputs)] = self._chosen(len(inputs))
        return apply(inputs)

    def _chosen(self, rows: int) -> Map:
        """Return the fastest map for this number of rows; numbers up to the same power of two share a kernel."""
        size = 1 << max(0, rows - 1).bit_length()
        if size not in self._by_rows:
            plain = self.weight.device.type != "cpu" or self.weight.dtype != torch.float32
            name = "linear" if plain else fastest(self.weight, self.bias, size)
            if name not in self._by_kernel:
                self._by_kernel[name] = KERNELS[name](self.weight, self.bias)
            self._by_rows[size] = self._by_kernel[name]
        return self._by_rows[size]


def fastest(weight: Tensor, bias: Tensor | None, rows: int) -> str:
    """Return the name of the fastest kernel for such a map, measured at its first use in this process."""
    key = (*weight.shape, rows, torch.get_num_threads())
    if key not in _CHOSEN:
        inputs = torch.randn(rows, weight.shape[1], generator=torch.Generator().manual_seed(0))
        names = [name for name in KERNELS if (rows <= FEW_ROWS or name in MANY_ROWS) and _works(name, inputs)]
        maps = {name: KERNELS[name](weight, bias) for name in names}
        seconds = dict.fromkeys(maps, float("inf"))
        for _ in range(ROUNDS):
            for name, apply in maps.items():
                began = time.perf_counter()
                apply(inputs)
                seconds[name] = min(seconds[name], time.perf_counter() - began)
        best = min(seconds, key=seconds.__getitem__)
        _CHOSEN[key] = best if seconds[best] <= CLEARLY * seconds["linear"] else "linear"
    return _CHOSEN[key]


def _works(name: str, inputs: Tensor) -> bool:
    """Return true if this build of torch has the kernel's operators; log once if it lacks them."""
    if name != "packed":
        return True
    try:
        _packed(inputs.new_ones(8, inputs.shape[1]), None)(inputs)
    except (AttributeError, NotImplementedError, RuntimeError):
        if name not in _MISSING:
            _MISSING.add(name)
            LOG.warning("this torch has no packed products (torch.ops.mkldnn): decoding goes on without them")
        return False
    return True
