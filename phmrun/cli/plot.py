"""``phmrun plot``: pictures of runs."""

from pathlib import Path
from typing import Annotated, cast

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Checkpoint
from phmrun.cli.options import Plugin, RunArgument, RunsDirectory
from phmrun.errors import unknown
from phmrun.registry import load_plugins

app = typer.Typer(help="Pictures of runs, PNG, SVG or PDF.", no_args_is_help=True)

AXES = ("epoch", "step", "time")

RunArguments = Annotated[
    list[str],
    typer.Argument(metavar="RUN…", help="Run ids, their unique beginnings, or paths.", autocompletion=completion.runs),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The picture, by its ending .png, .svg or .pdf (default: named for the run)."),
]


@app.command("history")
def plot_history(
    runs: RunArguments,
    *,
    score: Annotated[
        str | None, typer.Option(help="Of the history: val/perplexity, train/loss … (default: the usual one).")
    ] = None,
    over: Annotated[str, typer.Option(metavar="epoch|step|time", help="What it is drawn over.")] = "epoch",
    log: Annotated[bool, typer.Option("--log", help="A logarithmic scale.")] = False,
    out: Out = None,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Draws the course of a score over the training of one run or several."""
    if over not in AXES:
        raise unknown("axis", over, AXES, where="--over")
    from phmrun.ledger import Run
    from phmrun.plots.canvas import save_figure
    from phmrun.plots.history import Axis, choose_score, courses, default_name, draw_history

    found = [Run.find(runs_dir, run) for run in runs]
    chosen, axis = choose_score(found, score), cast(Axis, over)
    path = out or default_name(found, "history")
    save_figure(draw_history(courses(found, chosen, axis), chosen, axis, log=log), path)
    console.stdout().print(str(path), markup=False, soft_wrap=True)


@app.command("correlation")
def plot_correlation(
    run: RunArgument,
    *,
    checkpoint: Checkpoint = None,
    out: Out = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Draws how far the dimensions of a run's embeddings are correlated, a deep one's layer by layer."""
    load_plugins(plugin)
    from phmrun.ledger import Run
    from phmrun.plots.canvas import save_figure
    from phmrun.plots.correlation import correlation_panels, draw_correlation
    from phmrun.plots.history import default_name
    from phmrun.training.trained import open_run

    found = Run.find(runs_dir, run)
    trained = open_run(found)
    weights = trained.load(checkpoint)
    path = out or default_name([found], "correlation")
    panels = correlation_panels(trained.module.network)
    save_figure(draw_correlation(panels, f"{found.id}, {weights}"), path)
    console.stdout().print(str(path), markup=False, soft_wrap=True)
