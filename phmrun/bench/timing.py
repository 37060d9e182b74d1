"""Interleaved timing of several candidates.

A machine's speed drifts, also because of other processes. Each round therefore runs every candidate once, and starts
with another one. A ratio is the median over rounds of the quotient within a round, so a slow minute affects both sides.

A single CPU thread is timed by the process's CPU time, which excludes waiting on a busy machine. Several threads, or a
GPU, are timed by the wall clock of ``torch.utils.benchmark``, which waits for the GPU. Its ``Timer`` warms up before
each measurement; here only the first call of a candidate is a warm-up.
"""

import math
import statistics
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch.utils import benchmark

MEASUREMENT = 0.01  # minimum seconds of a measurement


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
    device: torch.device | str = "cpu",
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
        device: Device that computes.
        clock: Clock in seconds; by default that of :func:`clock_of` the device.
    """
    timers = {name: timeit.Timer(call, timer=clock or clock_of(device)) for name, call in candidates.items()}
    calls = dict.fromkeys(timers, 1)
    for name, timer in timers.items():
        timer.timeit(1)  # warm-up: the first call may set things up
        if at_least:
            calls[name] = max(1, math.ceil(at_least / max(timer.timeit(1), 1e-9)))
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    names = list(timers)
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds[name].append(timers[name].timeit(calls[name]) / calls[name])
    return {name: Timing(tuple(taken)) for name, taken in seconds.items()}


def clock_of(device: torch.device | str) -> Callable[[], float]:
    """Return the CPU time of the process for one thread on the CPU, else torch's wall clock, which waits for a GPU."""
    return time.process_time if counts_cpu_time(device) else benchmark.timer


def counts_cpu_time(device: torch.device | str = "cpu") -> bool:
    """Return True if torch computes in one thread on the CPU, so that CPU time measures a computation."""
    return torch.get_num_threads() == 1 and torch.device(device).type == "cpu"
