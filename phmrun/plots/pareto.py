"""Score against cost: which layers give most for their parameters or time, and which are beaten on both counts."""

import math
from collections.abc import Sequence
from textwrap import fill

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from phmrun.ledger.wording import title
from phmrun.metrics.kinds import kind_of
from phmrun.papers.costs import Point, frontier
from phmrun.plots.canvas import PALETTE, new_figure, words


def draw_pareto(points: Sequence[Point], score: str, *, size: str = "parameters", heading: str = "") -> Figure:
    """The points with their spread, and the frontier as a line.

    Args:
        points: At least one.
        score: The name of the score.
        size: The name of what the points cost.
        heading: Where the points come from.
    """
    figure = new_figure(7.0, 4.6)
    figure.suptitle(fill(words(heading), 90), fontsize=10)
    axes = figure.subplots()
    best = frontier(points, lower=kind_of(score).lower_is_better)
    axes.plot([p.size for p in best], [p.score for p in best], color=PALETTE[6], linewidth=1.2, zorder=1)
    for number, point in enumerate(points):
        colour = PALETTE[number % 6]
        label = words(point.label)
        axes.errorbar(point.size, point.score, yerr=point.spread, fmt="o", color=colour, capsize=3, label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    sizes = legible([point.size for point in points])
    if len(sizes) <= 6:
        axes.set_xticks(sizes, [short(value) for value in sizes], rotation=30, ha="right", fontsize=8)
        axes.set_xticks([], minor=True)
    axes.set_xlabel(f"{size} (logarithmic)")
    spread = any(point.spread is not None for point in points)
    axes.set_ylabel(title(score) + (" ± deviation over seeds" if spread else ""))
    axes.grid(alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    return figure


def legible(sizes: Sequence[float], least: float = 0.05) -> list[float]:
    """The sizes that are named below the axis: those whose names would lie over one another are left out.

    Args:
        sizes: In any order.
        least: The smallest distance on the logarithmic axis, in parts of its length.
    """
    ordered = sorted(set(sizes))
    room = least * math.log(ordered[-1] / ordered[0])
    kept = ordered[:1]
    for value in ordered[1:]:
        if math.log(value / kept[-1]) >= room:
            kept.append(value)
    return kept


def short(value: float) -> str:
    """A count with a unit: ``7.6M``."""
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:g}"
