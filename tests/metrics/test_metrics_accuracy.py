"""Accuracy by hand, and Wilson's interval against its definition."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.metrics.accuracy import LabelPair, accuracy, majority, wilson

COUNTS = {
    LabelPair("a", "a", "1"): 6,
    LabelPair("a", "b", "1"): 2,
    LabelPair("b", "b", "1"): 1,
    LabelPair("b", "a", "1"): 1,
    LabelPair("b", "b", "2"): 9,
    LabelPair("b", "a", "2"): 1,
    LabelPair("a", "a"): 5,
}


def test_by_hand():
    scores = accuracy(COUNTS, {"no gold label": 3}) | majority(COUNTS, {"no gold label": 3})
    assert {name: (round(score.value, 6), score.n) for name, score in scores.items()} == {
        "accuracy": (84.0, 25),
        "accuracy-1": (70.0, 10),
        "accuracy-2": (90.0, 10),
        "accuracy-of-majority": (52.0, 25),
        "accuracy-of-majority-1": (80.0, 10),
        "accuracy-of-majority-2": (100.0, 10),
    }
    assert scores["accuracy"].extras == {"correct": 21, "recall": {"a": 100 * 11 / 13, "b": 100 * 10 / 12}}
    assert scores["accuracy"].signature == "labels:a+b|no-gold-label:3|ci:wilson95"
    assert scores["accuracy-2"].signature == "labels:b|ci:wilson95"
    assert scores["accuracy-of-majority-1"].signature == "always:a"
    assert accuracy(COUNTS, ending="-of-copy").keys() == {f"accuracy-of-copy{part}" for part in ("", "-1", "-2")}


@given(n=st.integers(1, 10_000), share=st.floats(0, 1))
def test_the_interval_has_the_bounds_of_its_definition(n, share):
    """Wilson's bounds are the shares p whose distance to the seen one is z standard deviations of p itself."""
    hits = round(n * share)
    low, high = (bound / 100 for bound in wilson(hits, n))
    assert 0 <= low <= hits / n <= high <= 1
    for bound in (low, high):
        assert abs(hits / n - bound) <= 1.959964 * math.sqrt(bound * (1 - bound) / n) + 1e-6
        if 0 < bound < 1 and bound != hits / n:
            assert abs(hits / n - bound) == pytest.approx(1.959964 * math.sqrt(bound * (1 - bound) / n), rel=1e-4)


def test_a_published_example():
    """81 of 263: 25.5 to 36.6 per cent (Newcombe 1998, table I)."""
    assert wilson(81, 263) == pytest.approx((25.53, 36.62), abs=0.005)
    assert wilson(0, 20) == pytest.approx((0.0, 16.11), abs=0.005)
