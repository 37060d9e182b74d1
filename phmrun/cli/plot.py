"""``phmrun plot``: plots of runs and sweeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from phmrun.cli import completion, console
from phmrun.cli.decoding import Checkpoint
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import Json, Plugin, RunArgument, RunsDirectory
from phmrun.cli.runs import RunArguments
from phmrun.errors import PhmrunError, unknown
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = VerbGroup(help="Plot runs and sweeps as PNG, SVG or PDF.", no_args_is_help=True)

AXES = ("epoch", "step", "time")
CLOCKED = ("training-time", "clock-step", "clock-sentence")  # while the machine may do other work

Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Plot to write: .png, .svg or .pdf (default: named after the run)."),
]


Width = Annotated[
    str | None,
    typer.Option(metavar="column|page", help="Width of a paper's column or page (default: 7 inches or more)."),
]


def _save(figure: "Figure", path: Path, width: str | None, as_json: bool, **facts: Any) -> None:
    """Write a figure to a file, and print the path.

    ``width`` is that of a paper's column or page, None to keep the figure's. With ``as_json``, the path (key file) and
    ``facts`` are printed as JSON.
    """
    from phmrun.results.plots.canvas import resized, save_figure

    if width is not None:
        resized(figure, width)
    save_figure(figure, path, text=True)
    if as_json:
        console.print_json({"file": path, **facts})
        return
    console.stdout().print(str(path), markup=False, soft_wrap=True)


@app.command("history")
def plot_history(
    runs: RunArguments,
    score: str | None = None,
    over: Annotated[str, typer.Option(metavar="epoch|step|time")] = "epoch",
    log: Annotated[bool, typer.Option("--log")] = False,
    each: Annotated[bool, typer.Option("--each")] = False,
    out: Out = None,
    width: Width = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Plot a score over the training of one or several runs.

    The plot is written to --out, and its path is printed; --json adds what is plotted.

    Args:
        score: Score of the history: val/perplexity, train/loss … (default: the main one).
        over: Quantity of the x-axis.
        log: Logarithmic y-axis.
        each: One line for each run, in place of means over seeds.
    """
    if over not in AXES:
        raise unknown("axis", over, AXES, where="--over")
    with waiting("preparing"):
        from phmrun.ledger import Run
        from phmrun.results.plots.runs import (
            Axis,
            choose_score,
            curves,
            default_name,
            draw_history,
            heading,
            mean_curves,
        )

    chosen_runs = [Run.find(runs_dir, run) for run in runs]
    chosen, axis = choose_score(chosen_runs, score), cast(Axis, over)
    path = out or default_name(chosen_runs, "history")
    drawn = (curves if each else mean_curves)(chosen_runs, chosen, axis)
    figure = draw_history(drawn, chosen, axis, heading=heading(chosen_runs), log=log)
    _save(figure, path, width, as_json, score=chosen, over=over, curves=[curve._asdict() for curve in drawn])


@app.command("correlation")
def plot_correlation(
    run: RunArgument,
    checkpoint: Checkpoint = None,
    out: Out = None,
    plugin: Plugin = None,
    width: Width = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Plot the correlation between dimensions of a run's embeddings.

    A deep embedding is plotted layer by layer.

    The plot is written to --out, and its path is printed; --json adds what is plotted.
    """
    load_plugins(plugin)
    with waiting("preparing"):
        from phmrun.engine.trained_model import open_run
        from phmrun.ledger import Run
        from phmrun.results.plots.correlation import correlation_panels, draw_correlation
        from phmrun.results.plots.runs import default_name, heading, labels

        chosen_run = Run.find(runs_dir, run)
        trained = open_run(chosen_run)
        weights = trained.load(checkpoint)
    path = out or default_name([chosen_run], "correlation")
    panels = correlation_panels(trained.module.network)
    _save(
        draw_correlation(panels, f"{heading([chosen_run])}\n{labels([chosen_run])[0]}\nweights {weights}"),
        path,
        width,
        as_json,
        weights=weights,
    )


@app.command("pareto")
def plot_pareto(
    what: Annotated[list[str], typer.Argument(metavar="FILE|RUN…", autocompletion=completion.runs)],
    score: str | None = None,
    over: Annotated[str, typer.Option(metavar="COST")] = "parameters",
    out: Out = None,
    width: Width = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Plot a score against a cost, with the Pareto front and the trivial systems.

    The plot is written to --out, and its path is printed; --json adds what is plotted.

    Args:
        what: Sweep file, paper table's file, or runs.
        score: Score of the y-axis: test/bleu (default: that of the first column).
        over: Cost of the x-axis: parameters, multiplications, weights-size, latency … (not times by the clock of
            training, in which the machine may have done other work).
    """
    with waiting("preparing"):
        from phmrun.cli.sweep_output import tell_faults
        from phmrun.ledger import Run
        from phmrun.results.baselines import baseline_rows
        from phmrun.results.costs import COSTS, points_of, require_cost
        from phmrun.results.plots.runs import heading as heading_of
        from phmrun.results.plots.sweeps import draw_pareto
        from phmrun.sweeps.results import Asked, view

    if over in CLOCKED:
        reason = f"{over} depends on what else the machine did"
        raise PhmrunError(reason, where="--over", valid=[name for name in COSTS if name not in CLOCKED])
    require_cost(over, "--over")
    selection = view(what, runs_dir, Asked(scores=[score] if score else []))
    tell_faults(selection.statuses)
    table = selection.table
    names = [heading.scores[0] for heading in table.headings]
    chosen = score or next(iter(names), "")
    places = [place for place, name in enumerate(names) if name == chosen]
    points = [point for place in places for point in points_of(table, place, over).values()]
    if not points:
        raise PhmrunError(
            f"none of these has a score and {over} on record yet", valid=sorted(set(names)), where="--score"
        )
    path = out or Path(f"pareto-{Path(what[0]).stem}.png")
    about = what[0] if Path(what[0]).suffix else heading_of([Run.find(runs_dir, run) for run in what])
    place = names.index(chosen)
    baselines = {row.label: value for row in baseline_rows(table) if (value := row.values[place]) is not None}
    figure = draw_pareto(points, chosen, size=over, heading=table.title or about, baselines=baselines)
    drawn = [point._asdict() for point in points]
    _save(figure, path, width, as_json, score=chosen, over=over, points=drawn, baselines=baselines)


@app.command("tuning")
def plot_tuning(
    file: Annotated[str, typer.Argument(metavar="FILE", autocompletion=completion.configs)],
    out: Out = None,
    width: Width = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Plot a sweep's expected best validation scores against the number of trials.

    The plot is written to --out, and its path is printed; --json adds what is plotted.

    Args:
        file: File of a sweep with the key `tune`.
    """
    with waiting("preparing"):
        from phmrun.results.plots.sweeps import Effort, draw_tuning
        from phmrun.sweeps.planning import planned, tuned_rows

    plan = planned(file, ledger=runs_dir)
    if not plan.sweep.file.tune:
        raise PhmrunError("this sweep tunes nothing", where=file, hint="See the key tune in `phmrun schema sweep`.")
    rows = tuned_rows(plan, runs_dir)
    efforts = [Effort(row.label, row.scores, row.lower_is_better) for row in rows if row.scores]
    if not efforts:
        raise PhmrunError(f"no trial of it is done in {runs_dir}", where=file)
    monitor = next(row.cells[0].config.training.monitor for row in rows if row.cells[0].config)
    path = out or Path(f"tuning-{Path(file).stem}.png")
    figure = draw_tuning(efforts, f"val/{monitor}", plan.sweep.title or Path(file).stem)
    _save(figure, path, width, as_json, rows=[effort._asdict() for effort in efforts])
