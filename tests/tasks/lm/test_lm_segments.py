"""Segments of running text: every word once an epoch, in order, the same from any step on."""

from dataclasses import replace
from itertools import islice, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phmrun.tasks.lm.segments import SegmentPlan, parts

PLANS = st.builds(
    SegmentPlan,
    tokens=st.integers(40, 3000),
    streams=st.integers(1, 5),
    length=st.integers(1, 60),
    random=st.booleans(),
    seed=st.integers(0, 3),
    accumulate=st.integers(1, 3),
    world=st.integers(1, 2),
)


@given(PLANS, st.integers(0, 2))
def test_an_epoch_predicts_every_word_of_a_stream_but_the_first(plan, epoch):
    at = 0
    for start, length in plan.segments(epoch):
        assert start == at
        assert length > 0
        at += length
    assert at == plan.predicted == plan.tokens // (plan.streams * plan.world) - 1


@settings(max_examples=50)
@given(PLANS, st.integers(0, 12))
def test_from_any_step_on_as_from_the_beginning(plan, step):
    straight = list(islice(plan, (step + 3) * plan.accumulate))
    assert list(islice(replace(plan, start_step=step), 3 * plan.accumulate)) == straight[step * plan.accumulate :]


@settings(max_examples=50)
@given(PLANS)
def test_windows_and_epochs(plan):
    steps = plan.steps_in_epochs(2)
    batches = list(islice(plan, steps * plan.accumulate))
    begins = [number for number, segment in enumerate(batches) if segment.first]
    assert begins[:2] == [0, plan.batches_in(0)]
    assert plan.batches_in(0) + plan.batches_in(1) <= len(batches)
    assert len(batches) - plan.accumulate < plan.batches_in(0) + plan.batches_in(1)
    for first in range(0, len(batches), plan.accumulate):
        window = batches[first : first + plan.accumulate]
        assert {segment.window_units for segment in window} == {
            sum(segment.length for segment in window) * plan.streams * plan.world
        }


def test_random_lengths_are_as_merity_et_al_draw_them():
    """95 % around 70, 5 % around 35, all with a standard deviation of 5; another epoch, or seed, another order."""
    plan = SegmentPlan(1_400_000, 1, 70, random=True, seed=3)
    lengths = np.array([length for _, length in plan.segments(0)])[:-1]
    short = lengths < 52
    assert short.mean() == pytest.approx(0.05, abs=0.006)
    assert lengths[~short].mean() == pytest.approx(69.5, abs=0.2)
    assert lengths[~short].std() == pytest.approx(5, abs=0.2)
    assert lengths[short].mean() == pytest.approx(34.5, abs=0.6)
    assert lengths.min() >= 5
    assert plan.segments(0) == plan.segments(0) != plan.segments(1)
    assert SegmentPlan(1_400_000, 1, 70, random=True, seed=4).segments(0) != plan.segments(0)


@given(st.integers(0, 500), st.integers(1, 40))
def test_parts_are_equal_and_complete(tokens, streams):
    bounds = parts(tokens, streams)
    assert bounds[0][0] == 0
    assert bounds[-1][1] == tokens
    assert all(end == begin for (_, end), (begin, _) in pairwise(bounds))
    sizes = [end - begin for begin, end in bounds]
    assert max(sizes) - min(sizes) <= 1
    assert len(bounds) == max(min(streams, tokens), 1)
