"""Differences from the dense network with their intervals: what each row loses or gains, and how surely."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from phmrun.ledger.wording import title
from phmrun.papers.effects import Effect
from phmrun.plots.canvas import PALETTE, new_figure, words


def draw_effects(effects: Sequence[Effect], score: str) -> Figure:
    """A line for each row, from the lower to the upper end of its interval; zero is the dense network.

    A point is filled where the comparison has decided that the row is different.

    Args:
        effects: At least one.
        score: The name of the score.
    """
    figure = new_figure(7.0, 1.3 + 0.32 * len(effects))
    axes = figure.subplots()
    axes.axvline(0.0, color=PALETTE[7], linewidth=1.0)
    for place, effect in enumerate(effects):
        axes.plot([effect.low, effect.high], [place, place], color=PALETTE[0], linewidth=1.8)
        axes.plot(
            effect.value, place, "o", color=PALETTE[0], markerfacecolor=PALETTE[0] if effect.different else "white"
        )
    axes.set_yticks(range(len(effects)), [words(f"{effect.label} ({effect.seeds} seeds)") for effect in effects])
    axes.invert_yaxis()
    axes.set_ylim(len(effects) - 0.4, -0.6)
    axes.tick_params(labelsize=8)
    axes.set_xlabel(f"{title(score)}, minus dense\nfilled: decided to be different", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    return figure
