"""Plots of a sweep: scores by cost, differences."""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from types import MappingProxyType

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from phmrun.ledger.wording import title
from phmrun.metric import metric_of
from phmrun.results.costs import Point, frontier
from phmrun.results.plots.canvas import PALETTE, styles, words
from phmrun.statistics.verdict import Judgement, Verdict

WIDE = 3.0
"""Ratio of the largest to the smallest cost from which on its axis is logarithmic."""
LONGEST = 40  # characters of a line beside or below a plot


def draw_pareto(
    points: Sequence[Point],
    score: str,
    *,
    size: str = "parameters",
    heading: str = "",
    baselines: Mapping[str, float] = MappingProxyType({}),
) -> Figure:
    """Return a figure of a score by cost.

    Each point has a color and marker, its spread (if known), and an entry in the legend below; a line joins the Pareto
    front. The scores of baselines are in the legend. The axis of costs is logarithmic if the largest is at least three
    times the smallest.

    Args:
        points: Points, one or more.
        score: Name of the score.
        size: Label of the axis of costs.
        heading: Title of the figure (default: score and cost).
        baselines: Scores by name.
    """
    columns = 2 if max(len(words(point.label)) for point in points) <= LONGEST else 1
    figure = Figure(figsize=(7.5, 4.2 + 0.2 * math.ceil(len(points) / columns)), layout="constrained")
    axes = figure.subplots()
    axes.set_title(fill(words(heading or f"{title(score)} by {size}"), 80), fontsize=10)
    best = frontier(points, lower=metric_of(score).lower_is_better)
    axes.plot([p.size for p in best], [p.score for p in best], color=PALETTE[6], linewidth=1.2, zorder=1)
    for point, style in zip(points, styles(point.label for point in points), strict=True):
        color, label = style.color, words(point.label)
        axes.errorbar(point.size, point.score, yerr=point.spread, fmt=style.marker, color=color, capsize=3, label=label)
    for name, value in baselines.items():  # An empty line has an entry in the legend only.
        axes.plot([], [], " ", label=f"{words(name)}: {value:.4g}")
    wide = 0 < WIDE * min(point.size for point in points) <= max(point.size for point in points)
    axes.set_xscale("log" if wide else "linear")
    if wide:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel(f"{size} (logarithmic)" if wide else size)
    spread = any(point.spread is not None for point in points)
    axes.set_ylabel(title(score) + (" ± deviation over seeds" if spread else ""))
    axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def draw_effects(judgements: Mapping[str, Judgement], score: str) -> Figure:
    """Return a figure of each row's difference from dense with its interval, by the row's name.

    Points of rows whose verdict is "different" are filled. Judgements without a difference are left out.
    """
    effects = [(name, judged.difference, judged) for name, judged in judgements.items() if judged.difference]
    names = [f"{name} ({shown.seeds[0]}\u00a0seeds)" for name, shown, _ in effects]
    labels = [fill(words(name), LONGEST) for name in names]
    height = 1.3 + sum(0.16 + 0.16 * len(label.splitlines()) for label in labels)
    figure = Figure(figsize=(7.0, height), layout="constrained")
    axes = figure.subplots()
    axes.axvline(0.0, color=PALETTE[7], linewidth=1.0)
    for place, (_, shown, judged) in enumerate(effects):
        ends = [shown.low, shown.high]
        for side, mark in ((0, "<"), (1, ">")):
            if math.isinf(ends[side]):  # open: an arrow as far away as the other end
                ends[side] = 2 * shown.value - ends[1 - side]
                axes.plot(ends[side], place, mark, color=PALETTE[0])
        axes.plot(ends, [place, place], color=PALETTE[0], linewidth=1.8)
        face = PALETTE[0] if judged.verdict is Verdict.DIFFERENT else "white"
        axes.plot(shown.value, place, "o", color=PALETTE[0], markerfacecolor=face)
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(labelsize=8)
    axes.set_title(f"{title(score)}: differences from dense", fontsize=10)
    is_open = any(math.isinf(end) for _, shown, _ in effects for end in (shown.low, shown.high))
    marks = f"filled: decided to be different{'; arrow: open, beside outlying seeds' if is_open else ''}"
    axes.set_xlabel(f"{title(score)}, minus dense, with 95 % intervals\n{marks}", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    return figure
