"""How fast runs went, as their own records have it: figures of whatever else the machine did meanwhile, too."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from phmrun.ledger import Run
from phmrun.ledger.listing import score_value
from phmrun.plots.canvas import PALETTE, new_figure, words

TRAINING, PREDICTION = "train/units_per_second", "test/sentences_per_second"


class Pace(NamedTuple):
    """How fast a run went.

    Attributes:
        label: What it is called.
        training: Units (tokens, items) per second of training, the median of its history; ``None``: not recorded.
        prediction: Sentences per second of its evaluation on the test set; ``None``: not recorded.
    """

    label: str
    training: float | None
    prediction: float | None


def pace_of(run: Run, label: str) -> Pace:
    """The pace of one run."""
    rates = [row[TRAINING] for row in run.history.read() if TRAINING in row]
    return Pace(label, median(rates) if rates else None, score_value(run.metrics().get(PREDICTION)))


def draw_speed(paces: Sequence[Pace], heading: str = "") -> Figure:
    """Bars of training and of prediction, one for each run, with their figures; "not recorded" where there is none."""
    lines = sum(1 + pace.label.count("\n") for pace in paces)
    figure = new_figure(9.0, 1.3 + 0.3 * lines)
    figure.suptitle(words(heading), fontsize=10)
    sides = figure.subplots(1, 2, sharey=True)
    for axes, title, values in (
        (sides[0], "training: tokens or items per second", [pace.training for pace in paces]),
        (sides[1], "prediction: sentences per second", [pace.prediction for pace in paces]),
    ):
        bars = axes.barh(range(len(paces)), [value or 0.0 for value in values], color=PALETTE[0], height=0.7)
        said = ["not recorded" if value is None else f"{value:,.0f}" for value in values]
        axes.bar_label(bars, said, padding=3, fontsize=8)
        axes.set_xlim(0, 1.2 * max([value for value in values if value] or [1.0]))
        axes.set_yticks(range(len(paces)), [words(pace.label) for pace in paces], fontsize=8)
        axes.set_xlabel(title, fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
    sides[0].invert_yaxis()
    return figure
