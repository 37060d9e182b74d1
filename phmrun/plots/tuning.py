"""The expected best validation score against the number of trials, one line for each row (Dodge et al. 2019)."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from phmrun.ledger.wording import title
from phmrun.plots.canvas import PALETTE, new_figure, words
from phmrun.statistics.expected_best import expected_best


class Effort(NamedTuple):
    """The trials of a row.

    Attributes:
        label: What the legend calls it.
        scores: The best validation of every trial.
        lower_is_better: The direction of the score.
    """

    label: str
    scores: Sequence[float]
    lower_is_better: bool


def draw_tuning(efforts: Sequence[Effort], score: str, heading: str = "") -> Figure:
    """One line for each row, over 1 to as many trials as it has."""
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    for number, effort in enumerate(efforts):
        values = expected_best(effort.scores, lower_is_better=effort.lower_is_better)
        colour = PALETTE[number % len(PALETTE)]
        axes.plot(range(1, len(values) + 1), values, marker="o", color=colour, label=words(effort.label), linewidth=1.4)
    axes.set_title(words(heading), fontsize=10)
    axes.set_xlabel("trials")
    axes.set_ylabel(f"expected best {title(score)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
