"""Interleaved timing of several candidates, and profiles.

A machine's speed drifts, also because of other processes. Each round therefore runs every candidate once, and starts
with another one. A ratio is the median over rounds of the quotient within a round, so a slow minute affects both sides.

A single CPU thread is timed by the process's CPU time, which excludes waiting on a busy machine. Several threads, or a
GPU, are timed by the wall clock.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

MEASUREMENT = 0.01  # minimum seconds of a measurement


@dataclass(frozen=True)
class Result:
    """Line of a benchmark's results."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Timing:
    """Seconds per call of a candidate, one value per round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """Median over rounds, in seconds per call."""
        return statistics.median(self.seconds)

    def ratio(self, reference: "Timing") -> float:
        """Return the time relative to the reference's.

        It is the median of the quotients within rounds.
        """
        return statistics.median(mine / its for mine, its in zip(self.seconds, reference.seconds, strict=True))


def ratios(timings: Mapping[str, Timing], reference: str) -> dict[str, float]:
    """Return each other candidate's time / the reference's, by name."""
    return {name: timing.ratio(timings[reference]) for name, timing in timings.items() if name != reference}


def interleave(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    at_least: float = 0.0,
    settle: Callable[[], object] | None = None,
    clock: Callable[[], float] | None = None,
) -> dict[str, Timing]:
    """Time every candidate once per round.

    Return the timings by name. First calls are not timed. Each round starts with another candidate. Candidates keep
    their order, rotated by one per round. With ``at_least``, a second untimed call decides how often a candidate is
    called.

    Args:
        candidates: Functions to call, by name.
        rounds: Measurements of each; at least 1.
        at_least: Minimum seconds of a measurement; faster candidates are called several times.
        settle: Waits for unfinished work, such as a GPU's; called before the clock is read.
        clock: Clock in seconds; by default CPU time with one thread and no ``settle``, else wall time.
    """
    now = clock or (time.process_time if settle is None and counts_cpu_time() else time.perf_counter)

    def measured(candidate: Callable[[], object], calls: int) -> float:
        """Return the seconds per call, over ``calls`` calls."""
        if settle is not None:
            settle()
        began = now()
        for _ in range(calls):
            candidate()
        if settle is not None:
            settle()
        return (now() - began) / calls

    calls = dict.fromkeys(candidates, 1)
    for name, candidate in candidates.items():
        measured(candidate, 1)  # warm-up: the first call may set things up
        if at_least:
            calls[name] = max(1, math.ceil(at_least / max(measured(candidate, 1), 1e-9)))
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds[name].append(measured(candidates[name], calls[name]))
    return {name: Timing(tuple(taken)) for name, taken in seconds.items()}


def counts_cpu_time() -> bool:
    """Return True if torch uses one thread, so that CPU time measures a computation."""
    return torch.get_num_threads() == 1


class Operation(NamedTuple):
    """Operation in a profile."""

    name: str  # torch's name
    calls: int  # number of calls
    seconds: float  # self time, without operations that it calls
    share: float  # share of all operations' self time


def profile_call(call: Callable[[], object], *, most: int = 15, device: torch.device | str = "cpu") -> list[Operation]:
    """Return the operations with the longest self time in one call.

    At most ``most`` of them, longest first. Call it once before, so that it sets nothing up. On a GPU, times are those
    of the kernels that an operation launched; otherwise the CPU's.
    """
    gpu = torch.device(device).type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    with profile(activities=activities) as recorded:
        call()
        if gpu:
            torch.cuda.synchronize()
    # A kernel is listed by itself and within the operation that launched it; only the latter is counted.
    taken = [
        (event.key, event.count, (event.self_device_time_total if gpu else event.self_cpu_time_total) / 1e6)
        for event in recorded.key_averages()
        if event.device_type == DeviceType.CPU
    ]
    total = sum(seconds for _, _, seconds in taken) or 1.0
    taken.sort(key=lambda entry: -entry[2])
    return [Operation(name, calls, seconds, seconds / total) for name, calls, seconds in taken[:most]]
