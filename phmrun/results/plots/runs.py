"""Plots of runs: score over training, and speed."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import fmean, median, stdev
from textwrap import fill
from typing import Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from phmrun.config import load_run_config, semantic_values
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.ledger.card import shared
from phmrun.ledger.history import shown
from phmrun.ledger.recorded_config import PLAIN
from phmrun.ledger.recorded_run import score_value
from phmrun.ledger.wording import title
from phmrun.results.plots.canvas import PALETTE, new_figure, words

Axis = Literal["epoch", "step", "time"]
LABELS: dict[Axis, str] = {"epoch": "epochs", "step": "optimizer steps", "time": "minutes of training"}
PARTS = ("layer", "embedding", "output")  # sections of a config that a network's name covers
DIRECT = 8  # lines that are labeled at their ends; more have a legend
BESIDE = 24  # characters of a label at the end of a line
LONGEST = 60  # characters of a line in a legend
USUAL = ("val/perplexity", "val/bleu", "val/accuracy", "val/las", "val/loss", "train/loss")  # by preference
TRAINING, PREDICTION = "train/units_per_second", "test/sentences_per_second"


def heading(runs: Sequence[Run]) -> str:
    """Return the tasks and data of the runs: "nmt on multi30k: phm n=8".

    Several tasks or data are joined by commas. The network follows if all runs have the same.
    """
    tasks, data = (
        ", ".join(dict.fromkeys(str(run.status.about.get(key, "")) for run in runs)) for key in ("task", "data")
    )
    networks = {_network(run) for run in runs}
    return f"{tasks} on {data}" + (f": {networks.pop()}" if len(networks) == 1 else "")


def _network(run: Run) -> str:
    """Return the label of a run's network, "dense" if it is not on record."""
    return str(run.status.about.get("network") or run.status.about.get("layer") or PLAIN)


def labels(runs: Sequence[Run]) -> list[str]:
    """Return a label per run: its network, then settings that differ.

    The network is left out if all have the same and settings differ. Settings of layer, embedding and output are left
    out, and all settings if any configuration cannot be loaded. A key is shortened to its last part if that is
    unambiguous. Equal labels are numbered: "dense (2)". Long ones are wrapped at 60 characters.
    """
    networks = [_network(run) for run in runs]
    try:
        settings = [semantic_values(load_run_config(run.config_path, options_of=options_of)) for run in runs]
    except PhmrunError:  # for example, a layer that is not loaded
        settings = [{} for _ in runs]
    keys = dict.fromkeys(key for values in settings for key in values if key.partition(".")[0] not in PARTS)
    telling = [key for key in keys if len({str(values.get(key)) for values in settings}) > 1]
    endings = Counter(key.rpartition(".")[2] for key in telling)
    names = {}  # the last part of a key if unambiguous: "seed", "lr"
    for key in telling:
        last = key.rpartition(".")[2]
        names[key] = last.replace("_", " ") if endings[last] == 1 else key
    texts = []
    for network, values in zip(networks, settings, strict=True):
        others = [f"{names[key]} {values[key]}" for key in telling if key in values]
        same = len(set(networks)) == 1 and others
        texts.append(fill(shared(", ".join(others if same else [network, *others])), LONGEST))
    counts = Counter(texts)
    places = {label: count(1) for label in counts}
    return [label if counts[label] == 1 else f"{label} ({next(places[label])})" for label in texts]


def default_name(runs: Sequence[Run], kind: str) -> Path:
    """Return a picture's default path: ``KIND-FIRST_RUN.png`` in the working directory."""
    return Path(f"{kind}-{runs[0].id}.png")


class Curve(NamedTuple):
    """Score over the training of a run, or its mean over several seeds.

    ``places`` are epochs, steps or minutes.
    """

    label: str
    places: list[float]
    values: list[float]
    spread: list[float] | None = None  # standard deviation over seeds; None for a single run


def choose_score(runs: Sequence[Run], asked: str | None) -> str:
    """Return the asked score.

    If it is None, return the first that all runs have of val/perplexity, val/bleu, val/accuracy, val/las, val/loss,
    train/loss.

    Raises:
        PhmrunError: (exit 2) Not all runs have the asked score, or they have none of these in common.
    """
    for name in USUAL if asked is None else (asked,):
        if all(any(name in row for row in run.history.rows(name)) for run in runs):
            return name
    common = set.intersection(*(set(run.history.names()) for run in runs))
    what = "the runs have no score in common" if asked is None else f"not all of the runs have the score {asked!r}"
    raise PhmrunError(what, where="--score", valid=sorted(common))


def curves(runs: Sequence[Run], score: str, axis: Axis) -> list[Curve]:
    """Return the course of a score in each run, in order.

    Rows of the history without the score are left out. Shares are in percent; the axis is optimizer steps, epochs
    (fractions included) or minutes.

    Raises:
        PhmrunError: (exit 2) The axis is epochs, and a run has no number of steps per epoch on record.
    """
    result = []
    for run, label in zip(runs, labels(runs), strict=True):
        rows = [row for row in run.history.rows(score) if score in row]
        length = run.parameters().get("steps_per_epoch") if axis == "epoch" else 1
        if not length:
            raise PhmrunError(
                f"the run {run.id} does not say how many steps an epoch has", where="--over", valid=("step", "time")
            )
        places = [float(row["time"] / 60 if axis == "time" else row["step"] / length) for row in rows]
        result.append(Curve(label, places, [shown(score, float(row[score])) for row in rows]))
    return result


def seeds_of(runs: Sequence[Run]) -> list[list[Run]]:
    """Group runs that differ in their seeds alone.

    Groups are in order of appearance, the runs in a group by ascending seed; one without a seed counts as 0. A run
    whose settings cannot be read is alone.
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.status.about.get("seed") or 0):
        try:
            values = semantic_values(load_run_config(run.config_path, options_of=options_of))
            key = str({name: value for name, value in values.items() if name != "seed"} | {"network": _network(run)})
        except PhmrunError:
            key = run.id
        groups.setdefault(key, []).append(run)
    return sorted(groups.values(), key=lambda group: min(runs.index(run) for run in group))


def mean_curves(runs: Sequence[Run], score: str, axis: Axis) -> list[Curve]:
    """Return the mean course of a score over the seeds of each group.

    Groups are those of :func:`seeds_of`. Only places that all seeds of a group have are kept, ascending, since a mean
    of fewer would jump. The label has the number of seeds; the spread is the sample standard deviation. Single runs are
    returned as by :func:`curves`.

    Raises:
        PhmrunError: (exit 2) The axis is epochs, and a run has no number of steps per epoch on record.
    """
    groups = seeds_of(runs)
    means = []
    for group, label in zip(groups, labels([group[0] for group in groups]), strict=True):
        drawn = [dict(zip(curve.places, curve.values, strict=True)) for curve in curves(group, score, axis)]
        places = sorted(set(drawn[0]).intersection(*drawn[1:]))
        values = [[curve[place] for curve in drawn] for place in places]
        several = len(group) > 1
        spread = [stdev(some) for some in values] if several else None
        text = f"{label} ({len(group)} seeds)" if several else label
        means.append(Curve(text, places, [fmean(some) for some in values], spread))
    return means


def draw_history(drawn: Sequence[Curve], score: str, axis: Axis, *, heading: str = "", log: bool = False) -> Figure:
    """Return a figure with one line per run or group of seeds.

    The scale of the score is logarithmic if ``log``. A curve with a single point is a marker. A band of one standard
    deviation lies around a mean. Up to 8 lines are labeled at their ends. More lines, or any label with a line of more
    than 24 characters, get a legend below.
    """
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    for number, curve in enumerate(drawn):
        color = PALETTE[number % len(PALETTE)]
        dashes = ("-", "--", ":", "-.")[number // len(PALETTE) % 4]
        # A line through one point draws nothing.
        marker = "o" if len(curve.places) == 1 else None
        axes.plot(
            curve.places, curve.values, dashes, color=color, label=words(curve.label), linewidth=1.4, marker=marker
        )
        if curve.spread:
            pairs = list(zip(curve.values, curve.spread, strict=True))
            low, high = [mean - spread for mean, spread in pairs], [mean + spread for mean, spread in pairs]
            axes.fill_between(curve.places, low, high, color=color, alpha=0.15, linewidth=0)
    axes.set_xlabel(LABELS[axis])
    spread = " ± standard deviation over seeds" if any(curve.spread for curve in drawn) else ""
    axes.set_ylabel(f"{title(score)}{spread}")
    axes.set_title(words(heading), fontsize=10)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    longest = max((len(line) for curve in drawn for line in curve.label.splitlines()), default=0)
    if len(drawn) > DIRECT or longest > BESIDE:
        figure.legend(loc="outside lower center", ncols=1 if longest > 2 * BESIDE else 2, fontsize=8)
    else:
        _label_ends(axes, [curve for curve in drawn if curve.values])
    return figure


def _label_ends(axes: Axes, drawn: Sequence[Curve]) -> None:
    """Write each curve's label in its color at the right of the axes.

    It stands at the height of the curve's end, or above the label below it if they would overlap. All labels move down
    if the topmost would leave the axes.
    """
    to_axes = axes.transScale + axes.transLimits
    to_share = [float(to_axes.transform((curve.places[-1], curve.values[-1]))[1]) for curve in drawn]
    heights = [0.055 * (1 + curve.label.count("\n")) for curve in drawn]
    place = 0.0
    order = sorted(range(len(drawn)), key=to_share.__getitem__)
    places: dict[int, float] = {}
    for number in order:
        places[number] = place = max(to_share[number], place)
        place += heights[number]
    excess = max(0.0, place - 1.0 - heights[order[-1]] / 2) if order else 0.0
    for number in order:
        axes.annotate(
            words(drawn[number].label),
            (1.01, places[number] - excess),
            xycoords="axes fraction",
            color=axes.get_lines()[number].get_color(),
            fontsize=8,
            va="center",
        )


class Pace(NamedTuple):
    """Recorded speed of a run; other load on its machine is not excluded."""

    label: str
    training: float | None  # units (tokens, items) per second: median of its history
    prediction: float | None  # sentences per second of its evaluation on the test set


def pace_of(run: Run, label: str) -> Pace:
    """Return the speed of a run.

    That of training is the median of the history, that of prediction the score on record. Each is ``None`` if it is not
    on record.
    """
    rates = [row[TRAINING] for row in run.history.rows(TRAINING) if TRAINING in row]
    return Pace(label, median(rates) if rates else None, score_value(run.metrics().get(PREDICTION)))


def draw_speed(paces: Sequence[Pace], heading: str = "") -> Figure:
    """Return a figure with bars of training and prediction speed per run.

    Missing speeds are labeled "not recorded". Bars of training are on the left, of prediction on the right; the first
    run is at the top.
    """
    lines = sum(1 + pace.label.count("\n") for pace in paces)
    figure = new_figure(9.0, 1.3 + 0.3 * lines)
    figure.suptitle(words(heading), fontsize=10)
    sides = figure.subplots(1, 2, sharey=True)
    for axes, name, values in (
        (sides[0], "training: tokens or items per second", [pace.training for pace in paces]),
        (sides[1], "prediction: sentences per second", [pace.prediction for pace in paces]),
    ):
        bars = axes.barh(range(len(paces)), [value or 0.0 for value in values], color=PALETTE[0], height=0.7)
        numbers = ["not recorded" if value is None else f"{value:,.0f}" for value in values]
        axes.bar_label(bars, numbers, padding=3, fontsize=8)
        # Space for the numbers at the ends of the bars; an axis without bars needs a length, too.
        axes.set_xlim(0, 1.2 * max([value for value in values if value] or [1.0]))
        axes.set_yticks(range(len(paces)), [words(pace.label) for pace in paces], fontsize=8)
        axes.set_xlabel(name, fontsize=8)
        axes.tick_params(axis="x", labelsize=8)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        axes.grid(alpha=0.3, axis="x")
        axes.set_axisbelow(True)
    sides[0].invert_yaxis()
    return figure
