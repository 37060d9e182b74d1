"""Frontiers against their definition, and pictures that can be written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phmrun.results.costs import Point, frontier
from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.sweeps import draw_pareto

numbers = st.integers(0, 12).map(float)
clouds = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=12, unique=True)


@given(clouds, st.booleans())
def test_the_frontier_is_what_nothing_beats(cloud, lower):
    points = [Point(str(place), size, score, None) for place, (size, score) in enumerate(cloud)]
    sign = -1 if lower else 1

    def beaten(point):
        return any(
            other.size <= point.size and sign * other.score >= sign * point.score and other[1:3] != point[1:3]
            for other in points
        )

    assert set(frontier(points, lower=lower)) == {point for point in points if not beaten(point)}


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_pictures(tmp_path, ending):
    points = [Point("dense", 7.5e6, 36.7, 0.4), Point("phm n=4", 3.4e6, 37.1, None), Point("lost", 5e6, 30.0, 0.1)]
    pareto = draw_pareto(points, "test/bleu")
    assert pareto.axes[0].get_ylabel() == "test BLEU ± deviation over seeds"
    save_figure(pareto, tmp_path / f"pareto.{ending}")
    written = (tmp_path / f"pareto.{ending}").read_bytes()
    assert written.startswith(b"\x89PNG" if ending == "png" else b"<?xml")


def test_labels_of_close_counts_differ():
    points = [Point("a", 234_100, 1.0, None), Point("b", 234_600, 2.0, None)]
    axis = draw_pareto(points, "test/bleu").axes[0].xaxis
    labels = axis.get_major_formatter().format_ticks(axis.get_majorticklocs())
    assert len(set(labels)) == len(labels)


def test_a_cost_of_zero_is_shown():
    axes = draw_pareto([Point("a", 0, 1.0, None), Point("b", 1000, 2.0, None)], "test/bleu").axes[0]
    assert (axes.get_xscale(), axes.get_xlim()[0] <= 0) == ("linear", True)
