"""Where the time goes: the operations of a call that take most of it."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile


class Operation(NamedTuple):
    """One kind of operation in a profile."""

    name: str  # torch's name of it
    calls: int  # how often it was called
    seconds: float  # time inside it and not inside operations that it calls
    share: float  # that in parts of all operations' time


def profile_call(call: Callable[[], object], *, most: int = 15, device: torch.device | str = "cpu") -> list[Operation]:
    """The operations of one call that take the most time of their own, most first.

    Args:
        call: What to profile; it has been called before, so that nothing is set up in it.
        most: How many operations to return.
        device: On a GPU its kernels count, otherwise the processor's operations.
    """
    gpu = torch.device(device).type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    with profile(activities=activities) as recorded:
        call()
        if gpu:
            torch.cuda.synchronize()
    taken = [
        (event.key, event.count, (event.self_device_time_total if gpu else event.self_cpu_time_total) / 1e6)
        for event in recorded.key_averages()
    ]
    total = sum(seconds for _, _, seconds in taken) or 1.0
    taken.sort(key=lambda entry: -entry[2])
    return [Operation(name, calls, seconds, seconds / total) for name, calls, seconds in taken[:most]]
