"""``phmrun plot``: pictures of runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Checkpoint
from phmrun.cli.options import Plugin, RunArgument, RunsDirectory
from phmrun.cli.runs import RunArguments
from phmrun.errors import PhmrunError, unknown
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = typer.Typer(help="Pictures of runs, PNG, SVG or PDF.", no_args_is_help=True)

AXES = ("epoch", "step", "time")

Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The picture, by its ending .png, .svg or .pdf (default: named for the run)."),
]


def _save(figure: "Figure", path: Path) -> None:
    from phmrun.results.plots.canvas import save_figure

    save_figure(figure, path)
    console.stdout().print(str(path), markup=False, soft_wrap=True)


@app.command("history")
def plot_history(
    runs: RunArguments,
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
    with waiting("preparing"):
        from phmrun.ledger import Run
        from phmrun.results.plots.runs import Axis, choose_score, curves, default_name, draw_history, heading

    found = [Run.find(runs_dir, run) for run in runs]
    chosen, axis = choose_score(found, score), cast(Axis, over)
    path = out or default_name(found, "history")
    drawn = curves(found, chosen, axis)
    _save(draw_history(drawn, chosen, axis, heading=heading(found), log=log), path)


@app.command("correlation")
def plot_correlation(
    run: RunArgument,
    checkpoint: Checkpoint = None,
    out: Out = None,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Draws how far the dimensions of a run's embeddings are correlated, a deep one's layer by layer."""
    load_plugins(plugin)
    with waiting("preparing"):
        from phmrun.engine.trained_model import open_run
        from phmrun.ledger import Run
        from phmrun.results.plots.correlation import correlation_panels, draw_correlation
        from phmrun.results.plots.runs import default_name, heading, labels

        found = Run.find(runs_dir, run)
        trained = open_run(found)
        weights = trained.load(checkpoint)
    path = out or default_name([found], "correlation")
    panels = correlation_panels(trained.module.network)
    _save(draw_correlation(panels, f"{heading([found])}\n{labels([found])[0]}\nweights {weights}"), path)


@app.command("pareto")
def plot_pareto(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|RUN…", help="A sweep's or a paper table's file, or runs.", autocompletion=completion.runs
        ),
    ],
    score: Annotated[str | None, typer.Option(help="A score, as in test/bleu (default: the first column's).")] = None,
    over: Annotated[
        str,
        typer.Option(metavar="COST", help="parameters, multiplications, training-time, or step-time (of `bench run`)."),
    ] = "parameters",
    out: Out = None,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Draws a score against what it costs: what gives most for its size, and what is beaten on both counts."""
    with waiting("preparing"):
        from phmrun.cli.sweep_output import tell_faults
        from phmrun.ledger import Run
        from phmrun.results.costs import points_of, require_cost
        from phmrun.results.plots.runs import heading as heading_of
        from phmrun.results.plots.sweeps import draw_pareto
        from phmrun.sweeps.results import Asked, view

    require_cost(over, "--over")
    found = view(what, runs_dir, Asked(scores=[score] if score else []))
    tell_faults(found.statuses)
    table = found.table
    names = [heading.scores[0] for heading in table.headings]
    chosen = score or next(iter(names), "")
    points = [point for place, name in enumerate(names) if name == chosen for point in points_of(table, place, over)]
    if not points:
        raise PhmrunError(
            f"none of these has a score and {over} on record yet", valid=sorted(set(names)), where="--score"
        )
    path = out or Path(f"pareto-{Path(what[0]).stem}.png")
    about = what[0] if Path(what[0]).suffix else heading_of([Run.find(runs_dir, run) for run in what])
    _save(draw_pareto(points, chosen, size=over, heading=table.title or about), path)


@app.command("speed")
def plot_speed(runs: RunArguments, out: Out = None, runs_dir: RunsDirectory = Path("runs")) -> None:
    """Draws how fast some runs trained and predicted, by their own records; `phmrun bench run` measures it alone."""
    with waiting("preparing"):
        from phmrun.ledger import Run
        from phmrun.results.plots.runs import default_name, draw_speed, heading, labels, pace_of

    found = [Run.find(runs_dir, run) for run in runs]
    path = out or default_name(found, "speed")
    paces = [pace_of(run, label) for run, label in zip(found, labels(found), strict=True)]
    _save(draw_speed(paces, heading(found)), path)


@app.command("tuning")
def plot_tuning(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The file of a sweep with `tune:`.", autocompletion=completion.configs)
    ],
    out: Out = None,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Draws the expected best validation of every row of a sweep against the number of trials."""
    with waiting("preparing"):
        from phmrun.results.plots.sweeps import Effort, draw_tuning
        from phmrun.sweeps.planning import planned, tuned_rows

    made = planned(file, ledger=runs_dir)
    if not made.sweep.file.tune:
        raise PhmrunError("this sweep tunes nothing", where=file, hint="See the key tune in `phmrun schema sweep`.")
    rows = tuned_rows(made, runs_dir)
    efforts = [Effort(row.label, row.scores, row.lower_is_better) for row in rows if row.scores]
    if not efforts:
        raise PhmrunError(f"no trial of it is done in {runs_dir}", where=file)
    monitor = next(row.cells[0].config.training.monitor for row in rows if row.cells[0].config)
    path = out or Path(f"tuning-{Path(file).stem}.png")
    _save(draw_tuning(efforts, f"val/{monitor}", made.sweep.title or Path(file).stem), path)
