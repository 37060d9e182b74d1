"""Plots of runs: score over training."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from math import isfinite
from pathlib import Path
from textwrap import fill
from typing import Literal, NamedTuple

from matplotlib.figure import Figure

from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.directory import PLAIN
from phmrun.ledger.history import shown
from phmrun.ledger.listing import telling_settings, value_of
from phmrun.ledger.wording import shared, title
from phmrun.results.plots.canvas import label_ends, styles, words

Axis = Literal["epoch", "step", "time"]
LABELS: dict[Axis, str] = {"epoch": "epochs", "step": "optimizer steps", "time": "minutes of training"}
LONGEST = 60  # characters of a line in a legend
USUAL = ("val/perplexity", "val/bleu", "val/accuracy", "val/las", "val/loss", "train/loss")  # by preference


def heading(runs: Sequence[Run]) -> str:
    """Return the tasks and data of the runs: "nmt on multi30k: phm n=8".

    Several tasks or data are joined by commas. The network follows if all runs have the same.
    """
    tasks, data = (
        ", ".join(dict.fromkeys(str(run.status.about.get(key, "")) for run in runs)) for key in ("task", "data")
    )
    networks = {run.network or PLAIN for run in runs}
    return f"{tasks} on {data}" + (f": {networks.pop()}" if len(networks) == 1 else "")


def labels(runs: Sequence[Run]) -> list[str]:
    """Return a label per run: its network, then settings that differ.

    The network is left out if all have the same and settings differ. Settings are those of
    :func:`~phmrun.ledger.listing.telling_settings`. Equal labels are numbered: "dense (2)". Long ones are wrapped at
    60 characters.
    """
    networks = [run.network or PLAIN for run in runs]
    telling = telling_settings(runs)
    texts = []
    for network, run in zip(networks, runs, strict=True):
        values = [(key.rpartition(".")[2].replace("_", " "), value_of(run, key)) for key in telling]
        others = [f"{name} {value}" for name, value in values if value is not None]
        same = len(set(networks)) == 1 and others
        texts.append(fill(shared(", ".join(others if same else [network, *others])), LONGEST))
    counts = Counter(texts)
    places = {label: count(1) for label in counts}
    return [label if counts[label] == 1 else f"{label} ({next(places[label])})" for label in texts]


def default_name(runs: Sequence[Run], kind: str) -> Path:
    """Return a picture's default path: ``KIND-FIRST_RUN.png`` in the working directory."""
    return Path(f"{kind}-{runs[0].id}.png")


class Curve(NamedTuple):
    """Score over the training of a run.

    ``places`` are epochs, steps or minutes.
    """

    label: str
    places: list[float]
    values: list[float]


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


def draw_history(drawn: Sequence[Curve], score: str, axis: Axis, *, heading: str = "", log: bool = False) -> Figure:
    """Return a figure with one line per run, named at its end.

    The scale of the score is logarithmic if ``log``. Without a heading, the score is the title.

    Raises:
        PhmrunError: (exit 2) A curve has fewer than two points.
    """
    for curve in drawn:
        if len(curve.places) < 2:
            had = f"a single value of {score}, {curve.values[0]:.4g}" if curve.values else f"no value of {score}"
            often = "Training records one" if score == "train/loss" else "--score train/loss has one"
            hint = f"{often} every 50 steps; training.validate_every sets those of validation."
            raise PhmrunError(f"{curve.label} has {had}, and a curve needs two", where="--score", hint=hint)
    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    pairs = list(zip(drawn, styles(curve.label for curve in drawn), strict=True))
    for curve, style in pairs:
        axes.plot(curve.places, curve.values, style.dashes, color=style.color, label=words(curve.label), linewidth=1.4)
    axes.set_xlabel(LABELS[axis])
    axes.set_ylabel(title(score))
    axes.set_title(fill(words(heading or title(score)), 80), fontsize=10)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    # A diverged run's last values are not finite: its name is at the last one that is.
    points = [[point for point in zip(c.places, c.values, strict=True) if isfinite(point[1])] for c in drawn]
    named = [(*its[-1], c.label, style.color) for its, (c, style) in zip(points, pairs, strict=True) if its]
    label_ends(axes, named)
    return figure
