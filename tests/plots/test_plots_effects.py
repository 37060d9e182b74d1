"""Differences from the dense network as a picture."""

from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.sweeps import draw_effects
from phmrun.statistics.verdict import Judgement, Verdict
from phmrun.statistics.welch import Difference


def test_a_line_for_each_row_filled_where_it_is_decided(tmp_path):
    judged = {
        "phm n=2": Judgement(Verdict.UNDECIDED, difference=Difference(-1.0, 1, 5, -2.5, 0.5, 0.2, 2, (6, 6))),
        "low-rank $x$": Judgement(Verdict.DIFFERENT, difference=Difference(-4.0, 1, 5, -5.0, -3.0, 0.01, 2, (6, 6))),
    }
    figure = draw_effects(judged, "test/accuracy")
    axes = figure.axes[0]
    intervals = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() == "None"]
    assert [list(ends) for ends in intervals[1:]] == [[-2.5, 0.5], [-5.0, -3.0]]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [point.get_markerfacecolor() == "white" for point in points] == [True, False]
    assert axes.get_xlabel().startswith("test accuracy (%), minus dense")
    assert "95 % intervals" in axes.get_xlabel()
    save_figure(figure, tmp_path / "a.svg")  # a name is no formula


def test_an_open_end_is_an_arrow():
    shown = Difference(-1.0, 1, 5, -2.5, float("inf"), 0.2, 2, (6, 5))
    lines = draw_effects({"phm": Judgement(Verdict.NOT_WORSE, difference=shown)}, "test/accuracy").axes[0].lines
    assert [list(line.get_xdata()) for line in lines if line.get_marker() == ">"] == [[0.5]]  # as far as -2.5 is
