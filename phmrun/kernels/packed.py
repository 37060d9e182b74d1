"""Dense maps of few vectors on a CPU, by the fastest of several equivalent kernels.

For few rows ``F.linear`` takes up to four times as long as the fastest kernel. With MKL on processors not by AMD, that
is MKL's product with weights packed once. Elsewhere it depends on the machine, the sizes and the number of rows, and is
measured once per process for each of these, in a few milliseconds. The kernels sum in different orders: results differ
in the last digits, and may differ between machines. Scores are therefore not computed with them.
"""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from phmrun.kernels.processor import amd_family

Map = Callable[[Tensor], Tensor]
"""``[rows, in_features] -> [rows, out_features]``."""
Kernel = Callable[[Tensor, Tensor | None], Map]
"""Function of W and b that returns a map."""

FEW_ROWS = 128
"""Above this number of rows only the kernels in :data:`MANY_ROWS` are measured."""
MKL_ROWS = 4
"""Fewest rows for which MKL's packed layout is faster than ``F.linear``."""
PACKED_ROWS = 256
"""Number of rows that MKL packs for; of 1, 8, 64 and 256, the fastest at any number of rows from 4."""
ROUNDS = 3
CLEARLY = 0.9
"""Largest share of the time of ``F.linear`` at which another kernel is chosen, because of noise."""

_CHOSEN: dict[tuple[int, int, int, int], str] = {}
"""Name of the fastest kernel in this process, by output and input features, rows and threads."""


def _linear(weight: Tensor, bias: Tensor | None) -> Map:
    """Return ``F.linear`` with these weights; ``bias`` may be None."""
    return lambda inputs: F.linear(inputs, weight, bias)


def _turned(weight: Tensor, bias: Tensor | None) -> Map:
    """Return a map that computes (W xᵀ)ᵀ + b.

    ``bias`` may be None.
    """
    column = None if bias is None else bias.unsqueeze(1)

    def turned(inputs: Tensor) -> Tensor:
        """Return W x for rows, plus the bias, by the transpose of W xᵀ."""
        columns = inputs.t()
        outputs = torch.mm(weight, columns) if column is None else torch.addmm(column, weight, columns)
        return outputs.t().contiguous()

    return turned


def _transposed(weight: Tensor, bias: Tensor | None) -> Map:
    """Return a map that computes x Wᵀ + b with a contiguous copy of Wᵀ.

    ``bias`` may be None.
    """
    columns = weight.t().contiguous()
    return lambda inputs: torch.mm(inputs, columns) if bias is None else torch.addmm(bias, inputs, columns)


def _packed(weight: Tensor, bias: Tensor | None) -> Map:
    """Return oneDNN's map, with a copy of W in its packed layout.

    It serves any number of rows. ``bias`` may be None.
    """
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, FEW_ROWS)
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


KERNELS: Mapping[str, Kernel] = {
    **{"linear": _linear, "turned": _turned, "transposed": _transposed},
    **{"packed": _packed, "mkl": _mkl},  # private operators, which a build of torch may lack
}
"""All kernels by name; the first exists in every version of torch."""
MANY_ROWS = ("linear", "packed")


def bfloat16_map(weight: Tensor, bias: Tensor | None) -> Map:
    """Return a map of inputs and weights rounded to bfloat16, with float32 outputs.

    On a CPU by oneDNN with packed weights; elsewhere, or if this torch lacks them, by ``F.linear``. ``bias`` may be
    None.
    """
    weight, bias = weight.detach().bfloat16(), None if bias is None else bias.detach().bfloat16()
    packs = weight.device.type == "cpu" and _works("packed", weight)
    apply = (_packed if packs else _linear)(weight, bias)
    return lambda inputs: apply(inputs.bfloat16()).float()


class FewRows:
    """Map y = W x + b without gradients, by the fastest kernel.

    In single precision on a CPU; otherwise ``F.linear`` is used. The kernel is chosen for each number of rows; numbers
    that use the same kernel share its copy of W.

    Args:
        weight: W ``[out_features, in_features]``.
        bias: b ``[out_features]`` or None.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self._by_rows: dict[int, Map] = {}
        self._by_kernel: dict[str, Map] = {}

    def for_rows(self, rows: int) -> Map:
        """Return the map ``[rows, in_features] -> [rows, out_features]`` of inputs with this number of rows.

        The first call with a number of rows may measure the kernels.
        """
        if rows not in self._by_rows:
            name = self._chosen(rows)
            if name not in self._by_kernel:
                self._by_kernel[name] = KERNELS[name](self.weight, self.bias)
            self._by_rows[rows] = self._by_kernel[name]
        return self._by_rows[rows]

    def _chosen(self, rows: int) -> str:
        """Return the kernel for this number of rows.

        It is "linear" except in float32 on a CPU. On processors not by AMD with MKL it is "mkl" from 4 rows on
        (``MKL_ROWS``), below "linear". Otherwise kernels are measured, and numbers up to the same power of two share
        one.
        """
        if self.weight.device.type != "cpu" or self.weight.dtype != torch.float32:
            return "linear"
        if not amd_family() and _works("mkl", self.weight):
            return "mkl" if rows >= MKL_ROWS else "linear"
        return fastest(self.weight, self.bias, 1 << max(0, rows - 1).bit_length())


def fastest(weight: Tensor, bias: Tensor | None, rows: int) -> str:
    """Return the name of the fastest kernel for this number of rows.

    Measured on random inputs at its first use in this process, for these sizes and number of threads; the shortest of
    three times counts. Another kernel than "linear" must take at most 0.9 of its time (``CLEARLY``). All kernels but
    "mkl" are measured; for more than 128 rows (``FEW_ROWS``) "linear" and "packed" alone.
    """
    key = (*weight.shape, rows, torch.get_num_threads())
    if key not in _CHOSEN:
        inputs = torch.randn(rows, weight.shape[1], generator=torch.Generator().manual_seed(0))
        maps = {
            name: kernel(weight, bias)
            for name, kernel in KERNELS.items()
            if name != "mkl" and (rows <= FEW_ROWS or name in MANY_ROWS) and _works(name, inputs)
        }
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
    """Return True if this build of torch has the kernel's operators.

    It is tried at every call, with a weight of 8 rows and the columns, type and device of ``inputs``.
    """
    try:
        KERNELS[name](inputs.new_ones(8, inputs.shape[1]), None)(inputs)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True
