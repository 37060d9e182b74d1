import time

import pytest
import torch
from torch.utils import benchmark

from phmrun.bench.timing import Timing, clock_of, interleave


class Clock:
    """Time that passes only when a candidate takes it."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def __call__(self):
        return self.now

    def candidate(self, name, *seconds):
        left = list(seconds)

        def call():
            self.calls.append(name)
            self.now += left.pop(0) if len(left) > 1 else left[0]

        return call


def test_every_round_has_each_once_and_starts_with_another():
    clock = Clock()
    candidates = {name: clock.candidate(name, 1.0) for name in "abc"}
    interleave(candidates, rounds=4, clock=clock)
    assert "".join(clock.calls) == "abc" + "abc" + "bca" + "cab" + "abc"


def test_fast_candidates_are_called_until_a_measurement_is_long_enough():
    clock = Clock()
    candidates = {"fast": clock.candidate("f", 0.25), "slow": clock.candidate("s", 3.0)}
    timings = interleave(candidates, rounds=2, at_least=1.0, clock=clock)
    assert clock.calls.count("f") == 2 + 2 * 4
    assert clock.calls.count("s") == 2 + 2 * 1
    assert timings["fast"].seconds == pytest.approx((0.25, 0.25))
    assert timings["slow"].seconds == pytest.approx((3.0, 3.0))


@pytest.mark.parametrize(("threads", "device", "cpu"), [(1, "cpu", True), (2, "cpu", False), (1, "cuda", False)])
def test_cpu_time_is_that_of_one_thread_and_a_gpu_is_waited_for(monkeypatch, threads, device, cpu):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert clock_of(device) is (time.process_time if cpu else benchmark.timer)


def test_a_ratio_is_taken_within_rounds():
    """A machine that is ten times slower in one round, and in another for one candidate only."""
    reference = Timing((1.0, 10.0, 1.0, 1.0, 1.0))
    mine = Timing((2.0, 20.0, 2.0, 50.0, 2.0))
    assert mine.ratio(reference) == 2.0
    with pytest.raises(ValueError, match="argument"):
        mine.ratio(Timing((1.0,)))
