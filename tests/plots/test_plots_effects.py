"""Differences from the dense network as a picture."""

from phmrun.results.plots.canvas import save_figure
from phmrun.results.plots.sweeps import draw_effects
from phmrun.results.table import Effect


def test_a_line_for_each_row_filled_where_it_is_decided(tmp_path):
    effects = [Effect("phm n=2", -1.0, -2.5, 0.5, 6, False), Effect("low-rank $x$", -4.0, -5.0, -3.0, 6, True)]
    figure = draw_effects(effects, "test/accuracy")
    axes = figure.axes[0]
    intervals = [line.get_xdata() for line in axes.lines if len(line.get_xdata()) == 2 and line.get_marker() == "None"]
    assert [list(ends) for ends in intervals[1:]] == [[-2.5, 0.5], [-5.0, -3.0]]
    points = [line for line in axes.lines if line.get_marker() == "o"]
    assert [point.get_markerfacecolor() == "white" for point in points] == [True, False]
    assert axes.get_xlabel().startswith("test accuracy (%), minus dense")
    assert "95 % intervals" in axes.get_xlabel()
    save_figure(figure, tmp_path / "a.svg")  # a name is no formula
