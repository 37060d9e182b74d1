"""The simulation of verdicts: the same as the code in use, and its promises in a short form."""

import numpy as np
import pytest

from benchmarks.verdicts import (
    KINDS,
    collapsed_seeds,
    detectable,
    draw,
    grid,
    intervals,
    judged,
    pairs,
    power,
    reported,
)
from phmrun.statistics.verdict import Question, Verdict, collapsed, judge
from phmrun.statistics.welch import difference, row_level


@pytest.mark.parametrize("kind", KINDS)
def test_the_simulated_method_is_the_one_in_use(kind: str) -> None:
    scores = draw(np.random.default_rng(1), kind, (12, 4, 10), 1.5)
    gap, half = intervals(scores, row_level(3))
    sizes = reported(scores, row_level(3))
    flagged, outcome = collapsed_seeds(scores), judged(scores)["different"]
    for trial, (dense, *rows) in enumerate(scores.tolist()):
        assert [len(collapsed(system)) for system in (dense, *rows)] == flagged[trial].tolist()
        for place, row in enumerate(rows):
            shown = difference(row, dense, 3)
            assert shown is not None
            expected = (gap[trial, place] - half[trial, place], gap[trial, place] + half[trial, place])
            assert (shown.low, shown.high) == pytest.approx(expected, rel=1e-3, abs=1e-3)
            assert shown.detectable == pytest.approx(sizes[trial, place], rel=1e-3)
        named = {str(place): row for place, row in enumerate(rows)}
        verdicts = judge(named, dense, Question()).values()
        assert [verdict.verdict is Verdict.DIFFERENT for verdict in verdicts] == outcome[trial].tolist()


def test_false_alarms_and_coverage_hold_in_a_short_simulation() -> None:
    for facts in grid(250, seed=3):
        assert facts["alarms_95"][0] <= 0.06, facts
        assert facts["coverage_95"][1] >= 0.93, facts


def test_power_grows_with_the_effect() -> None:
    for facts in power(300):
        assert facts["power_1"] < facts["power_2"] <= facts["power_3"] + 0.02


def test_power_at_the_detectable_difference_is_80_percent() -> None:
    for facts in detectable(4000):
        if facts["seeds"] >= 3 and facts["kind"] == "normal" and facts["rows"] < 8:
            assert 0.78 <= facts["power"] <= 0.85, facts


def test_false_alarms_over_all_pairs_hold_in_a_short_simulation() -> None:
    for facts in pairs(1000):
        assert facts["alarms_95"][0] <= 0.05, facts
