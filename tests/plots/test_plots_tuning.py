"""The picture of the expected best validation."""

from phmrun.results.plots.sweeps import Effort, draw_tuning


def test_lines_are_the_expected_bests():
    figure = draw_tuning(
        [Effort("dense", [1.0, 3.0], False), Effort("phm n=2", [4.0, 2.0, 3.0], True)], "val/accuracy", "sva"
    )
    assert figure.axes[0].get_ylabel() == "expected best validation accuracy (%)"
    assert figure.axes[0].get_title() == "sva"
    first, second = figure.axes[0].get_lines()
    assert list(first.get_ydata()) == [2.0, 2.5]
    assert second.get_label() == "phm n=2"
    assert second.get_ydata()[0] == 3.0
    assert second.get_ydata()[-1] < 3.0
