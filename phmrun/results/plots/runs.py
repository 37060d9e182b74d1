"""Plots of runs: score over training."""

from collections import Counter
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from statistics import fmean, stdev
from textwrap import fill
from typing import Literal, NamedTuple

from matplotlib.figure import Figure

from phmrun.config import load_run_config, semantic_values
from phmrun.config.options import options_of
from phmrun.errors import PhmrunError
from phmrun.ledger import Run
from phmrun.ledger.card import shared
from phmrun.ledger.history import shown
from phmrun.ledger.recorded_config import PLAIN
from phmrun.ledger.wording import title
from phmrun.results.plots.canvas import label_ends, new_figure, styles, words

Axis = Literal["epoch", "step", "time"]
LABELS: dict[Axis, str] = {"epoch": "epochs", "step": "optimizer steps", "time": "minutes of training"}
PARTS = ("layer", "embedding", "output")  # sections of a config that a network's name covers
LONGEST = 60  # characters of a line in a legend
USUAL = ("val/perplexity", "val/bleu", "val/accuracy", "val/las", "val/loss", "train/loss")  # by preference


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
    """Return a figure with one line per run or group of seeds, named at its end.

    The scale of the score is logarithmic if ``log``. A band of one standard deviation lies around a mean. Without a
    heading, the score is the title.

    Raises:
        PhmrunError: (exit 2) A curve has fewer than two points.
    """
    for curve in drawn:
        if len(curve.places) < 2:
            had = f"a single value of {score}, {curve.values[0]:.4g}" if curve.values else f"no value of {score}"
            hint = "--score train/loss has one every few steps; training.validate_every sets those of validation."
            raise PhmrunError(f"{curve.label} has {had}, and a curve needs two", where="--score", hint=hint)
    figure = new_figure(7.5, 4.2)
    axes = figure.subplots()
    chosen = styles(curve.label for curve in drawn)
    for curve, style in zip(drawn, chosen, strict=True):
        axes.plot(curve.places, curve.values, style.dashes, color=style.color, label=words(curve.label), linewidth=1.4)
        if curve.spread:
            pairs = list(zip(curve.values, curve.spread, strict=True))
            low, high = [mean - spread for mean, spread in pairs], [mean + spread for mean, spread in pairs]
            axes.fill_between(curve.places, low, high, color=style.color, alpha=0.15, linewidth=0)
    axes.set_xlabel(LABELS[axis])
    spread = " ± standard deviation over seeds" if any(curve.spread for curve in drawn) else ""
    axes.set_ylabel(f"{title(score)}{spread}")
    axes.set_title(fill(words(heading or title(score)), 80), fontsize=10)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    pairs_of = zip(drawn, chosen, strict=True)
    label_ends(axes, [(curve.places[-1], curve.values[-1], curve.label, style.color) for curve, style in pairs_of])
    return figure
