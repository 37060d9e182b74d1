"""``phmrun plot``: plots of runs and sweeps."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from phmrun.cli import completion, console
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import Json, RunsDirectory
from phmrun.cli.runs import RunArguments
from phmrun.errors import PhmrunError, unknown
from phmrun.progress import waiting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

app = VerbGroup()

CLOCKED = ("training-time", "clock-step", "clock-sentence")  # while the machine may do other work

Out = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Plot to write: .png, .svg or .pdf (default: named after the run)."),
]


def _save(figure: "Figure", path: Path, as_json: bool, **facts: Any) -> None:
    """Write a figure to a file, and print the path.

    With ``as_json``, the path (key file) and ``facts`` are printed as JSON.
    """
    from phmrun.results.plots.canvas import save_figure

    save_figure(figure, path)
    if as_json:
        console.print_json({"file": path, **facts})
        return
    console.print_line(str(path))


@app.command("history")
def plot_history(
    runs: RunArguments,
    score: str | None = None,
    over: Literal["epoch", "step", "time"] = "epoch",
    log: Annotated[bool, typer.Option("--log")] = False,
    out: Out = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Plot a score over the training of one or several runs.

    The plot is written to --out, and its path is printed; --json adds what is plotted.

    Args:
        score: Score of the history: val/perplexity, train/loss … (default: the main one).
        over: Quantity of the x-axis.
        log: Logarithmic y-axis.
    """
    with waiting("preparing"):
        from phmrun.ledger import Run
        from phmrun.results.plots.runs import choose_score, curves, default_name, draw_history, heading

    chosen_runs = [Run.find(runs_dir, run) for run in runs]
    chosen = choose_score(chosen_runs, score)
    path = out or default_name(chosen_runs, "history")
    drawn = curves(chosen_runs, chosen, over)
    figure = draw_history(drawn, chosen, over, heading=heading(chosen_runs), log=log)
    _save(figure, path, as_json, score=chosen, over=over, curves=[curve._asdict() for curve in drawn])


@app.command("pareto")
def plot_pareto(
    what: Annotated[list[str], typer.Argument(metavar="FILE|RUN…", autocompletion=completion.runs)],
    score: str | None = None,
    over: Annotated[str, typer.Option(metavar="COST")] = "parameters",
    out: Out = None,
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
        from phmrun.results.costs import COSTS, points_of
        from phmrun.results.plots.runs import heading as heading_of
        from phmrun.results.plots.sweeps import draw_pareto
        from phmrun.sweeps.results import Asked, view

    if over in CLOCKED or over not in COSTS:
        reason = f"{over} depends on what else the machine did" if over in CLOCKED else None
        raise unknown("cost", over, COSTS.keys() - set(CLOCKED), where="--over", what=reason)
    selection = view(what, runs_dir, Asked(scores=[score] if score else []))
    tell_faults(selection.statuses)
    table = selection.table
    chosen = score or next((heading.score for heading in table.headings), "")
    places = [place for place, heading in enumerate(table.headings) if heading.score == chosen]
    signatures = [text for line in table.figures for place in places for text in line[place].signatures]
    if len({text.partition("|data:")[2][:12] for text in signatures} - {""}) > 1:
        raise PhmrunError(f"{chosen} is of several test sets", hint="Name runs of one; `phmrun report` plots each.")
    points = [point for place in places for point in points_of(table, place, over)]
    if not points:
        command = COSTS[over].meaning.split("`")[1:2]  # that measures it
        hint = f"Measure it first: `{command[0]}`" if command else None
        raise PhmrunError(f"none of these has a score and {over} on record", where="--over", hint=hint)
    path = out or Path(f"pareto-{Path(what[0]).name.removesuffix('.yaml').removesuffix('.yml')}.png")
    about = what[0] if what[0].endswith((".yaml", ".yml")) else heading_of([Run.find(runs_dir, run) for run in what])
    baselines = {row.label: value for row in baseline_rows(table) if (value := row.values[places[0]]) is not None}
    figure = draw_pareto(points, chosen, size=over, heading=table.title or about, baselines=baselines)
    drawn = [point._asdict() for point in points]
    _save(figure, path, as_json, score=chosen, over=over, points=drawn, baselines=baselines)
