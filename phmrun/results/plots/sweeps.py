"""Plots of a sweep: scores by cost, differences, value of trials."""

import math
from collections.abc import Mapping, Sequence
from textwrap import fill
from types import MappingProxyType
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from phmrun.ledger.wording import title
from phmrun.metric import metric_of
from phmrun.results.costs import Point, frontier
from phmrun.results.plots.canvas import PALETTE, new_figure, words
from phmrun.statistics.verdict import Judgement, Verdict

WIDE = 3.0
"""Ratio of the largest to the smallest cost from which on its axis is logarithmic."""
LONGEST = 40  # characters of a line beside or below a plot
MARKERS = "os^D"  # a marker for each round through the colors


def draw_pareto(
    points: Sequence[Point],
    score: str,
    *,
    size: str = "parameters",
    heading: str = "",
    baselines: Mapping[str, float] = MappingProxyType({}),
    beside: Mapping[str, Sequence[Point]] = MappingProxyType({}),
    curve: Mapping[str, Sequence[Point]] = MappingProxyType({}),
) -> Figure:
    """Return a figure of a score by cost.

    Each point has a color and marker, its spread (if known), and an entry in the legend below; a line joins the Pareto
    front. Baselines are dashed lines across the figure, by the name in the legend. One farther from the points than
    twice the span of their scores is not drawn, and the legend names it with its score. If all points have the same
    score, every baseline is drawn.

    Args:
        points: Points of the left panel, one or more.
        score: Name of the score.
        size: Label of its axis of costs.
        heading: Title of the figure.
        baselines: Scores by name.
        beside: Points of further panels at its right, by the label of the axis of costs; empty panels are left out.
            Labels of points that the left panel lacks have no entry in the legend.
        curve: Dense networks of several widths, by a panel's label of costs: a dotted line joins them.
    """
    panels = {size: points, **{label: others for label, others in beside.items() if others}}
    names = list(dict.fromkeys(point.label for others in panels.values() for point in others))
    columns = 2 if max((len(words(name)) for name in names), default=0) <= LONGEST else 1
    figure = new_figure(7.0, 4.2 + 0.2 * math.ceil((len(points) + len(baselines)) / columns))
    figure.suptitle(fill(words(heading), 90), fontsize=10)
    all_axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, (label, others) in zip(all_axes, panels.items(), strict=True):
        _draw_panel(axes, others, score, label, names, baselines)
        if along := sorted(curve.get(label, ()), key=lambda point: point.size):
            places, scores = [point.size for point in along], [point.score for point in along]
            axes.plot(places, scores, ":.", color=PALETTE[7], label="dense, by width", zorder=0)
    spread = any(point.spread is not None for point in points)
    all_axes[0].set_ylabel(title(score) + (" ± deviation over seeds" if spread else ""))
    figure.legend(*all_axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=columns, fontsize=8)
    return figure


def _draw_panel(
    axes: Axes, points: Sequence[Point], score: str, size: str, names: Sequence[str], baselines: Mapping[str, float]
) -> None:
    """Draw scores by one cost on axes.

    The axis of costs is logarithmic if the largest is at least three times the smallest, else linear. On a logarithmic
    axis, sizes whose labels do not overlap are labeled; if these are more than six, the axis has its usual labels. A
    point's place among ``names`` decides its color and marker.
    """
    best = frontier(points, lower=metric_of(score).lower_is_better)
    axes.plot([p.size for p in best], [p.score for p in best], color=PALETTE[6], linewidth=1.2, zorder=1)
    for point in points:
        number = names.index(point.label)
        color, marker, label = PALETTE[number % 6], MARKERS[number // 6 % len(MARKERS)], words(point.label)
        axes.errorbar(point.size, point.score, yerr=point.spread, fmt=marker, color=color, capsize=3, label=label)
    low, high = (end(p.score + side * (p.spread or 0) for p in points) for end, side in ((min, -1), (max, 1)))
    reach = 2 * (high - low) or math.inf
    for number, (name, value) in enumerate(baselines.items()):
        style = ("--", ":", "-.")[number % 3]
        line: dict[str, Any] = {"color": PALETTE[7], "linestyle": style, "linewidth": 1.0}
        if low - reach <= value <= high + reach:
            axes.axhline(value, label=words(name), zorder=0, **line)
        else:  # An empty line has an entry in the legend only.
            axes.plot([], [], label=f"{words(name)}: {value:.4g}, outside", **line)
    wide = max(point.size for point in points) >= WIDE * min(point.size for point in points)
    axes.set_xscale("log" if wide else "linear")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short(value)))
    # On a short logarithmic axis Matplotlib labels minor ticks, too, which would overlap these labels.
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: ""))
    sizes = legible([point.size for point in points])
    if wide and len(sizes) <= 6:
        axes.set_xticks(sizes, [short(value) for value in sizes], rotation=30, ha="right", fontsize=8)
        axes.set_xticks([], minor=True)
    axes.set_xlabel(f"{size} (logarithmic)" if wide else size)
    axes.grid(alpha=0.3)


def legible(sizes: Sequence[float], least: float = 0.05) -> list[float]:
    """Return the sizes to label on a logarithmic axis.

    They are distinct, ascending, and their labels do not overlap. Of two that would overlap, the smaller is kept.

    Args:
        sizes: Sizes, at least one, above 0.
        least: Smallest distance of labels, as a share of the axis.
    """
    ordered = sorted(set(sizes))
    room = least * math.log(ordered[-1] / ordered[0])
    kept = ordered[:1]
    for value in ordered[1:]:
        if math.log(value / kept[-1]) >= room:
            kept.append(value)
    return kept


def short(value: float) -> str:
    """Return a count with three digits and a unit: ``7.6M``.

    Units are K, M and B (10⁹). Counts below 1,000 have none, and up to six digits.
    """
    for unit, name in ((1e9, "B"), (1e6, "M"), (1e3, "K")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:g}"


def draw_effects(
    judgements: Mapping[str, Judgement], score: str, baselines: Mapping[str, float] = MappingProxyType({})
) -> Figure:
    """Return a figure of each row's difference from dense with its interval, by the row's name.

    Points of rows whose verdict is "different" are filled. Baselines, the difference of a trivial system from dense by
    its name, are crosses in rows below. One more than twice as far from 0 as the farthest end of an interval is a
    triangle at that distance. Judgements without a difference are left out.

    Raises:
        ValueError: There are no differences.
    """
    effects = [(name, judged.difference, judged) for name, judged in judgements.items() if judged.difference]
    names = [f"{name} ({shown.seeds[0]}\u00a0seeds)" for name, shown, _ in effects]
    names += [f"{name}: {value:+.2f}" for name, value in baselines.items()]
    reach = 2 * max(abs(end) for _, shown, _ in effects for end in (shown.low, shown.high))
    labels = [fill(words(name), LONGEST) for name in names]
    figure = new_figure(7.0, 1.3 + sum(0.16 + 0.16 * len(label.splitlines()) for label in labels))
    axes = figure.subplots()
    axes.axvline(0.0, color=PALETTE[7], linewidth=1.0)
    for place, (_, shown, judged) in enumerate(effects):
        axes.plot([shown.low, shown.high], [place, place], color=PALETTE[0], linewidth=1.8)
        face = PALETTE[0] if judged.verdict is Verdict.DIFFERENT else "white"
        axes.plot(shown.value, place, "o", color=PALETTE[0], markerfacecolor=face)
    for place, value in enumerate(baselines.values(), start=len(effects)):
        mark = "x" if abs(value) <= reach else "<" if value < 0 else ">"
        axes.plot(max(-reach, min(reach, value)), place, mark, color=PALETTE[7])
    axes.set_yticks(range(len(labels)), labels)
    axes.invert_yaxis()
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(labelsize=8)
    axes.set_xlabel(f"{title(score)}, minus dense, with 95 % intervals\nfilled: decided to be different", fontsize=9)
    axes.grid(axis="x", alpha=0.3)
    return figure


class Effort(NamedTuple):
    """Row's trials: best validation score of each, and the score's direction."""

    label: str
    scores: Sequence[float]
    lower_is_better: bool


def draw_tuning(efforts: Sequence[Effort], score: str, heading: str = "") -> Figure:
    """Return a figure of the expected best score by trials.

    It has a line for each effort, by :func:`expected_best`.
    """
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    for number, effort in enumerate(efforts):
        values = expected_best(effort.scores, lower_is_better=effort.lower_is_better)
        color = PALETTE[number % len(PALETTE)]
        axes.plot(range(1, len(values) + 1), values, marker="o", color=color, label=words(effort.label), linewidth=1.4)
    axes.set_title(words(heading), fontsize=10)
    axes.set_xlabel("trials")
    axes.set_ylabel(f"expected best {title(score)}")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def expected_best(scores: Sequence[float], *, lower_is_better: bool = False) -> list[float]:
    """Return the expected best score for 1, 2, … N trials; empty without scores.

    The best of k trials, drawn with replacement from N trials with scores v_1 … v_N from the worst to the best, has
    the expectation Σ_i v_i · ((i / N)^k - ((i - 1) / N)^k). It compares methods at equal effort; the best trial alone
    favors the method with most trials.

    Source: Dodge et al. 2019, "Show your work: improved reporting of experimental results", equation 4.
    """
    ordered = sorted(scores, reverse=lower_is_better)
    count = len(ordered)
    return [
        sum(value * ((rank / count) ** tries - ((rank - 1) / count) ** tries) for rank, value in enumerate(ordered, 1))
        for tries in range(1, count + 1)
    ]
