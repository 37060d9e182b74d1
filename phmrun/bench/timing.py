"""Times of several candidates for one job, measured in turns, and where the time of one goes.

A machine's speed drifts, and so do the speeds of neighbours on it. Candidates are therefore not measured one after the
other but in rounds: in every round each of them runs once, and every round starts with another one. A ratio is the
median over the rounds of the quotient within a round, so that a slow minute weighs on both sides of it.

What one thread computes on a CPU is measured in the process's own CPU time, which waiting for a turn on a busy machine
does not add to; several threads, and a GPU, by the clock on the wall.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

MEASUREMENT = 0.01  # seconds that a measurement lasts at least


@dataclass(frozen=True)
class Result:
    """One line of what a benchmark finds."""

    def to_json(self) -> dict[str, Any]:
        """All of it by name."""
        return asdict(self)


@dataclass(frozen=True)
class Timing:
    """Seconds per call of one candidate, one figure for each round."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median over the rounds, in seconds per call."""
        return statistics.median(self.seconds)

    def ratio(self, reference: "Timing") -> float:
        """How many times as long as the reference, measured in the same rounds: the median of the quotients."""
        return statistics.median(mine / its for mine, its in zip(self.seconds, reference.seconds, strict=True))


def ratios(timings: Mapping[str, Timing], reference: str) -> dict[str, float]:
    """The ratios of all candidates but the reference to it."""
    return {name: timing.ratio(timings[reference]) for name, timing in timings.items() if name != reference}


def interleave(
    candidates: Mapping[str, Callable[[], object]],
    *,
    rounds: int,
    at_least: float = 0.0,
    settle: Callable[[], object] | None = None,
    clock: Callable[[], float] | None = None,
) -> dict[str, Timing]:
    """Times every candidate once a round, after a first call that is not timed.

    Args:
        candidates: What to call, by name.
        rounds: Measurements of each; at least 1.
        at_least: Seconds that one measurement lasts: a candidate that is faster is called several times in it.
        settle: Waits for work that a call has left unfinished, such as a GPU's; called before the clock is read.
        clock: Seconds from an arbitrary moment; CPU time where that is the whole of it, unless given.
    """
    now = clock or (time.process_time if settle is None and counts_cpu_time() else time.perf_counter)

    def measured(candidate: Callable[[], object], calls: int) -> float:
        """Seconds per call, over ``calls`` calls."""
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
        measured(candidate, 1)  # which may set things up, and does not say how long a call takes
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
    """Whether CPU time is what a computation on the CPU takes: with one thread."""
    return torch.get_num_threads() == 1


class Operation(NamedTuple):
    """One kind of operation in a profile."""

    name: str  # torch's name of it
    calls: int  # how often it was called
    seconds: float  # time inside it and not inside operations that it calls
    share: float  # that in parts of all operations' time


def profile_call(call: Callable[[], object], *, most: int = 15, device: torch.device | str = "cpu") -> list[Operation]:
    """So many operations of one call that take the most time of their own, most first.

    It has been called before, so that nothing is set up in it. On a GPU its kernels count, otherwise the processor's
    operations.
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
