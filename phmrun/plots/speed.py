"""How fast runs went, as their own records have it: figures of whatever else the machine did meanwhile, too."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from matplotlib.figure import Figure

from phmrun.ledger import Run
from phmrun.ledger.listing import score_value
from phmrun.plots.canvas import PALETTE, new_figure

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


def draw_speed(paces: Sequence[Pace]) -> Figure:
    """Bars of training and of prediction, one for each run."""
    figure = new_figure(8.0, 1.2 + 0.32 * len(paces))
    sides = figure.subplots(1, 2, sharey=True)
    names = [pace.label for pace in paces]
    for axes, title, values in (
        (sides[0], "training, units per second", [pace.training for pace in paces]),
        (sides[1], "prediction, sentences per second", [pace.prediction for pace in paces]),
    ):
        colours = [PALETTE[number % len(PALETTE)] for number in range(len(paces))]
        axes.barh(range(len(paces)), [value or 0.0 for value in values], color=colours)
        axes.set_yticks(range(len(paces)), names, fontsize=8)
        axes.invert_yaxis() if axes is sides[0] else None
        axes.set_xlabel(title, fontsize=8)
        axes.grid(alpha=0.3, axis="x")
    return figure
