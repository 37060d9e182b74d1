"""How a dense map reaches a few vectors at a time on a CPU: by the fastest of several kernels that compute the same.

For a few rows ``F.linear`` reads the weights in a way that takes up to four times as long as the others do. Which is
the fastest depends on the machine, the sizes and the number of rows; so it is measured, once in a process for each of
these, in a few milliseconds. The kernels sum in different orders: results differ in the last digits, and may do so
between machines, which is why scores are not computed with them.
"""

import time
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

Map = Callable[[Tensor], Tensor]
"""``[rows, in_features] -> [rows, out_features]``."""
Kernel = Callable[[Tensor, Tensor | None, int], Map]
"""What makes a map of W, b and the number of rows that it is for."""

MOST_ROWS = 128
"""More rows than these are applied by ``F.linear``, which is as good there."""
ROUNDS = 3
CLEARLY = 0.9
"""Another kernel must take no more than this part of the time of ``F.linear``; less is within the noise."""

_CHOSEN: dict[tuple[int, int, int, int], str] = {}
"""By output and input features, rows and threads, the kernel that was the fastest in this process."""


def _linear(weight: Tensor, bias: Tensor | None, rows: int) -> Map:
    """As torch does it."""
    return lambda inputs: F.linear(inputs, weight, bias)


def _turned(weight: Tensor, bias: Tensor | None, rows: int) -> Map:
    """(W xᵀ)ᵀ."""
    column = None if bias is None else bias.unsqueeze(1)

    def turned(inputs: Tensor) -> Tensor:
        columns = inputs.t()
        outputs = torch.mm(weight, columns) if column is None else torch.addmm(column, weight, columns)
        return outputs.t().contiguous()

    return turned


def _transposed(weight: Tensor, bias: Tensor | None, rows: int) -> Map:
    """X Wᵀ with Wᵀ laid out anew."""
    columns = weight.t().contiguous()
    return lambda inputs: torch.mm(inputs, columns) if bias is None else torch.addmm(bias, inputs, columns)


def _packed(weight: Tensor, bias: Tensor | None, rows: int) -> Map:
    """By oneDNN, with W laid out as it likes it for so many rows."""
    packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
    apply = torch.ops.mkldnn._linear_pointwise.default
    return lambda inputs: apply(inputs, packed, bias, "none", [], "")


KERNELS: Mapping[str, Kernel] = {"linear": _linear, "turned": _turned, "transposed": _transposed, "packed": _packed}
"""All kernels; the first is always there."""


class FewRows:
    """y = W x + b, W ``[out_features, in_features]``, without a gradient, in single precision on a CPU.

    For each number of rows it is computed by the kernel that is the fastest for it.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.weight = weight.detach()
        self.bias = None if bias is None else bias.detach()
        self._of_rows: dict[int, Map] = {}

    def __call__(self, inputs: Tensor) -> Tensor:
        """``[rows, in_features] -> [rows, out_features]``."""
        apply = self._of_rows.get(len(inputs))
        if apply is None:
            apply = self._of_rows[len(inputs)] = self._chosen(len(inputs))
        return apply(inputs)

    def _chosen(self, rows: int) -> Map:
        """What is the fastest for so many rows; numbers up to the same power of two have one kernel."""
        size = 1 << max(0, rows - 1).bit_length()
        if size in self._of_rows:
            return self._of_rows[size]
        if rows > MOST_ROWS or self.weight.is_cuda or self.weight.dtype != torch.float32:
            return _linear(self.weight, self.bias, rows)
        made = self._of_rows[size] = KERNELS[fastest(self.weight, self.bias, size)](self.weight, self.bias, size)
        return made


def fastest(weight: Tensor, bias: Tensor | None, rows: int) -> str:
    """The name of the kernel that was the fastest for such a map when one was first asked for in this process."""
    key = (*weight.shape, rows, torch.get_num_threads())
    if key not in _CHOSEN:
        inputs = torch.randn(rows, weight.shape[1], generator=torch.Generator().manual_seed(0))
        maps = {name: kernel(weight, bias, rows) for name, kernel in KERNELS.items() if _works(name, inputs)}
        taken = dict.fromkeys(maps, float("inf"))
        for _ in range(ROUNDS):
            for name, apply in maps.items():
                began = time.perf_counter()
                apply(inputs)
                taken[name] = min(taken[name], time.perf_counter() - began)
        best = min(taken, key=taken.__getitem__)
        _CHOSEN[key] = best if taken[best] <= CLEARLY * taken["linear"] else "linear"
    return _CHOSEN[key]


def _works(name: str, inputs: Tensor) -> bool:
    """Whether this build of torch has what the kernel is made of."""
    if name != "packed":
        return True
    try:
        _packed(inputs.new_ones(8, inputs.shape[1]), None, len(inputs))(inputs)
    except (AttributeError, NotImplementedError, RuntimeError):
        return False
    return True
