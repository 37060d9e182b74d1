"""Plots of runs: score over training."""

from collections.abc import Sequence
from textwrap import fill
from typing import NamedTuple

from matplotlib.figure import Figure

from phmrun.ledger import Run
from phmrun.ledger.history import shown
from phmrun.ledger.recorded_config import PLAIN
from phmrun.ledger.wording import title
from phmrun.results.plots.canvas import new_figure, styles, words

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


class Curve(NamedTuple):
    """Score over the optimizer steps of a run."""

    label: str
    steps: list[int]
    values: list[float]


def common_score(runs: Sequence[Run]) -> str | None:
    """Return the first of :data:`USUAL` that all runs have in their histories; None without any."""
    return next(
        (name for name in USUAL if all(any(name in row for row in run.history.rows(name)) for run in runs)), None
    )


def curve(run: Run, score: str, label: str) -> Curve:
    """Return the course of a score in a run; shares are in percent, and rows without the score are left out."""
    rows = [row for row in run.history.rows(score) if score in row]
    return Curve(label, [row["step"] for row in rows], [shown(score, float(row[score])) for row in rows])


def draw_history(drawn: Sequence[Curve], score: str, heading: str = "") -> Figure:
    """Return a figure with one line per run, of two points or more, named in a legend.

    Without a heading, the score is the title.
    """
    figure = new_figure(7.5, 4.2 + 0.2 * len(drawn))
    axes = figure.subplots()
    for run, style in zip(drawn, styles(curve.label for curve in drawn), strict=True):
        axes.plot(run.steps, run.values, style.dashes, color=style.color, label=words(run.label), linewidth=1.4)
    axes.set_xlabel("optimizer steps")
    axes.set_ylabel(title(score))
    axes.set_title(fill(words(heading or title(score)), 80), fontsize=10)
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", fontsize=8)
    return figure
