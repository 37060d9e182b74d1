"""The course of a score over the training of several runs."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from textwrap import fill
from typing import Literal, NamedTuple

from matplotlib.figure import Figure

from phmrun.config import load_run_config, semantic_values
from phmrun.errors import PhmrunError
from phmrun.layers import options_of
from phmrun.ledger import Run
from phmrun.ledger.card import shared
from phmrun.ledger.history import shown
from phmrun.ledger.status import PLAIN
from phmrun.ledger.wording import title
from phmrun.plots.canvas import PALETTE, new_figure, words

Axis = Literal["epoch", "step", "time"]
LABELS: dict[Axis, str] = {"epoch": "epochs", "step": "optimizer steps", "time": "minutes of training"}
PARTS = ("layer", "embedding", "output")
"""Sections of a config that the name of a network says."""
LONGEST = 60
"""Characters of a line in a legend."""
USUAL = ("val/perplexity", "val/bleu", "val/accuracy", "val/las", "val/loss", "train/loss")
"""Scores in the order in which one is chosen."""


class Curve(NamedTuple):
    """The course of a score in one run.

    Attributes:
        label: What the legend calls the run.
        places: Epochs, steps or minutes.
        values: The score there.
    """

    label: str
    places: list[float]
    values: list[float]


def choose_score(runs: Sequence[Run], asked: str | None) -> str:
    """The score that is asked for, or the first usual one that all runs have.

    Raises:
        PhmrunError: There is none.
    """
    names = [{name for row in run.history.read() for name in row} for run in runs]
    common = set.intersection(*names) - {"step", "time"}
    if asked is None:
        for name in USUAL:
            if name in common:
                return name
    elif asked in common:
        return asked
    what = "the runs have no score in common" if asked is None else f"not all of the runs have the score {asked!r}"
    raise PhmrunError(what, where="--score", valid=sorted(common))


def curves(runs: Sequence[Run], score: str, axis: Axis) -> list[Curve]:
    """The courses of a score.

    Raises:
        PhmrunError: A run does not say how many steps an epoch has.
    """
    return [_curve(run, label, score, axis) for run, label in zip(runs, labels(runs), strict=True)]


def draw_history(drawn: Sequence[Curve], score: str, axis: Axis, *, heading: str = "", log: bool = False) -> Figure:
    """One line for each run.

    Args:
        drawn: The curves.
        score: What they are of.
        axis: What they are drawn over.
        heading: What the runs have in common.
        log: A logarithmic scale.
    """
    figure = new_figure(7.0, 4.2)
    axes = figure.subplots()
    for number, curve in enumerate(drawn):
        colour = PALETTE[number % len(PALETTE)]
        dashes = ("-", "--", ":", "-.")[number // len(PALETTE) % 4]
        marker = "o" if len(curve.places) == 1 else None
        axes.plot(
            curve.places, curve.values, dashes, color=colour, label=words(curve.label), linewidth=1.4, marker=marker
        )
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel(title(score))
    axes.set_title(words(heading), fontsize=10)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def heading(runs: Sequence[Run]) -> str:
    """What the runs have in common: task and data."""
    said = [{key: str(run.status.about.get(key, "")) for key in ("task", "data")} for run in runs]
    tasks, data = (list(dict.fromkeys(each[key] for each in said)) for key in ("task", "data"))
    return f"{', '.join(tasks)} on {', '.join(data)}"


def labels(runs: Sequence[Run]) -> list[str]:
    """What tells the runs apart: their layers ("dense", "phm n=2"), then the settings in which they differ."""
    networks = [str(run.status.about.get("network") or run.status.about.get("layer") or PLAIN) for run in runs]
    try:
        settings = [semantic_values(load_run_config(run.config_path, options_of=options_of)) for run in runs]
    except PhmrunError:  # a layer that is not loaded, say
        settings = [{} for _ in runs]
    keys = dict.fromkeys(key for values in settings for key in values if key.partition(".")[0] not in PARTS)
    telling = [key for key in keys if len({str(values.get(key)) for values in settings}) > 1]
    found = []
    for network, values in zip(networks, settings, strict=True):
        others = [f"{_short(key, telling)} {values[key]}" for key in telling if key in values]
        same = len(set(networks)) == 1 and others
        found.append(fill(shared(", ".join(others if same else [network, *others])), LONGEST))
    counts = Counter(found)
    places = {label: count() for label in counts}
    return [label if counts[label] == 1 else f"{label} ({next(places[label]) + 1})" for label in found]


def _short(key: str, among: Sequence[str]) -> str:
    """The last part of a key where that says which one is meant: "seed", "lr"."""
    last = key.rpartition(".")[2]
    return last.replace("_", " ") if sum(each.rpartition(".")[2] == last for each in among) == 1 else key


def default_name(runs: Sequence[Run], kind: str) -> Path:
    """Where a picture goes unless it is said: beside where the command is given, named for the first run."""
    return Path(f"{kind}-{runs[0].id}.png")


def _curve(run: Run, label: str, score: str, axis: Axis) -> Curve:
    rows = [row for row in run.history.read() if score in row]
    if axis == "epoch":
        length = run.parameters().get("steps_per_epoch")
        if not length:
            raise PhmrunError(
                f"the run {run.id} does not say how many steps an epoch has", where="--over", valid=("step", "time")
            )
        places = [row["step"] / length for row in rows]
    else:
        places = [row["step"] if axis == "step" else row["time"] / 60 for row in rows]
    return Curve(label, [float(place) for place in places], [shown(score, float(row[score])) for row in rows])
