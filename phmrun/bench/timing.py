"""Times of several candidates for one job, measured in turns.

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
from dataclasses import dataclass

import torch


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
    if clock is None:
        clock = time.process_time if settle is None and counts_cpu_time() else time.perf_counter
    calls = {name: _calls_in(candidate, at_least, settle, clock) for name, candidate in candidates.items()}
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(rounds):
        first = number % len(names)
        for name in (*names[first:], *names[:first]):
            seconds[name].append(_measure(candidates[name], calls[name], settle, clock))
    return {name: Timing(tuple(taken)) for name, taken in seconds.items()}


def counts_cpu_time() -> bool:
    """Whether CPU time is what a computation on the CPU takes: with one thread."""
    return torch.get_num_threads() == 1


def _calls_in(
    candidate: Callable[[], object],
    at_least: float,
    settle: Callable[[], object] | None,
    clock: Callable[[], float],
) -> int:
    """How many calls last ``at_least`` seconds; the first call, which may set things up, does not say."""
    _measure(candidate, 1, settle, clock)
    if not at_least:
        return 1
    return max(1, math.ceil(at_least / max(_measure(candidate, 1, settle, clock), 1e-9)))


def _measure(
    candidate: Callable[[], object],
    calls: int,
    settle: Callable[[], object] | None,
    clock: Callable[[], float],
) -> float:
    """Seconds per call, over ``calls`` calls."""
    if settle is not None:
        settle()
    began = clock()
    for _ in range(calls):
        candidate()
    if settle is not None:
        settle()
    return (clock() - began) / calls
