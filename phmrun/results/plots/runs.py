"""Plots of runs: score over training, and speed."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Literal, NamedTuple

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from phmrun.config import load_run_config, semantic_values
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.ledger.card import shared
from phmrun.ledger.history import shown
from phmrun.ledger.listing import score_value
from phmrun.ledger.recorded_config import PLAIN
from phmrun.ledger.wording import title
from phmrun.results.plots.canvas import PALETTE, new_figure, words

Axis = Literal["epoch", "step", "time"]
LABELS: dict[Axis, str] = {"epoch": "epochs", "step": "optimizer steps", "time": "minutes of training"}
PARTS = ("layer", "embedding", "output")  # sections of a config that a network's name covers
LONGEST = 60  # characters of a line in a legend
USUAL = ("val/perplexity", "val/bleu", "val/accuracy", "val/las", "val/loss", "train/loss")  # by preference
TRAINING, PREDICTION = "train/units_per_second", "test/sentences_per_second"


def heading(runs: Sequence[Run]) -> str:
    """Return the tasks and data of the runs, as "nmt on multi30k"."""
    tasks, data = (
        ", ".join(dict.fromkeys(str(run.status.about.get(key, "")) for run in runs)) for key in ("task", "data")
    )
    return f"{tasks} on {data}"


def labels(runs: Sequence[Run]) -> list[str]:
    """Return a label per run: its network, then settings that differ.

    The network is left out if all have the same and settings differ. Settings are left out if a configuration cannot be
    loaded. Equal labels are numbered; long ones are wrapped at 60 characters.
    """
    networks = [str(run.status.about.get("network") or run.status.about.get("layer") or PLAIN) for run in runs]
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
    """Score of a run over its training, in epochs, steps or minutes."""

    label: str
    places: list[float]
    values: list[float]


def choose_score(runs: Sequence[Run], asked: str | None) -> str:
    """Return the asked score.

    If none is asked, return the first of :data:`USUAL` that all runs have.

    Raises:
        PhmrunError: (exit 2) Not all runs have the score, or they have none of :data:`USUAL` in common.
    """
    for name in USUAL if asked is None else (asked,):
        if all(any(name in row for row in run.history.rows(name)) for run in runs):
            return name
    common = set.intersection(*(set(run.history.names()) for run in runs))
    what = "the runs have no score in common" if asked is None else f"not all of the runs have the score {asked!r}"
    raise PhmrunError(what, where="--score", valid=sorted(common))


def curves(runs: Sequence[Run], score: str, axis: Axis) -> list[Curve]:
    """Return the course of a score in each run.

    Rows of the history without the score are left out. Shares are in percent; the axis is optimizer steps, epochs or
    minutes.

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


def draw_history(drawn: Sequence[Curve], score: str, axis: Axis, *, heading: str = "", log: bool = False) -> Figure:
    """Return a figure with one line per run, and a legend.

    The scale is logarithmic if ``log``. A curve with a single point is a marker.
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
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel(title(score))
    axes.set_title(words(heading), fontsize=10)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


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

    Missing speeds are labeled "not recorded".
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
