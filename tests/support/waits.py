"""Counts of operations that make a processor wait for a GPU, taken on a CPU."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = ("_local_scalar_dense", "nonzero", "equal", "is_nonzero")
"""Operators whose result the processor reads."""
COPIES = (torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu)
"""Methods that copy from a GPU without one of these operators on a CPU."""


class _Reads(TorchDispatchMode):
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = function.overloadpacket.__name__
        if name in READS:
            self.counts[name] += 1
        return function(*args, **(kwargs or {}))


class _Copies(TorchFunctionMode):
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in COPIES:
            self.counts[function.__name__] += 1
        return function(*args, **(kwargs or {}))


@contextmanager
def counted_waits() -> Iterator[Counter[str]]:
    """Count by name, in this block, what would make the processor wait for a GPU."""
    counts: Counter[str] = Counter()
    with _Reads(counts), _Copies(counts):
        yield counts
