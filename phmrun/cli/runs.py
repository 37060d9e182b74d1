"""``phmrun runs``: list, show, compare, reproduce and remove runs."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import LATEST, Json, Plugin, RunArgument, RunsDirectory, choose_run, listed
from phmrun.errors import ExitCode, PhmrunError, counted
from phmrun.grouping import grouped_by
from phmrun.progress import waiting
from phmrun.registry import load_plugins

if TYPE_CHECKING:
    from phmrun.engine.reproduction import Reproduction
    from phmrun.ledger import Run

app = VerbGroup()

RunArguments = Annotated[
    list[str],
    typer.Argument(metavar="RUN…", help="Run ids, unique prefixes of them, or paths.", autocompletion=completion.runs),
]

ROWS = 5
"""Number of shown rows of the history."""
SETTINGS = 3
"""Maximum number of settings among the usual columns of a list."""


@app.command("list")
def list_runs(
    where: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE")] = None,
    columns: Annotated[str | None, typer.Option(metavar="NAME,NAME…")] = None,
    sort: Annotated[str, typer.Option()] = "name",
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs with state, layer, settings that differ and scores, then the trivial systems beside them.

    A terminal shows a table for each task, one line per run, with the ends of ids, which name a run, too. Damaged runs
    are listed; their damage is printed on standard error.

    If none fits, a message on standard error names the runs that there are. Runs sorted by a score have remarks: a
    single seed, or the built-in corpus.

    Args:
        where: Only runs with this value of a setting or column: task=nmt, state=done, layer='phm n=8', lr=0.006; may be
            repeated.
        columns: Columns in place of the usual ones: scores, settings, or name, state, seconds, updated …
        sort: Column to sort by: name, state, layer, parameters, step, seconds, updated …, a setting, or a score such as
            test/bleu; a leading - reverses the order: --sort=-test/bleu.
    """
    from phmrun.ledger import listing

    all_runs = listing.list_runs(runs_dir)
    chosen = listing.sort(listing.where(all_runs, where or ()), sort)
    names, by = listing.score_names(chosen), sort.removeprefix("-")
    noted = {}
    if by in names:
        from phmrun.results.baselines import remarks

        noted = dict(zip((run.id for run in chosen), remarks(chosen, by), strict=True))
    if as_json:
        console.print_json([run.to_json() | ({"remarks": noted[run.id]} if noted else {}) for run in chosen])
        return
    if not chosen:
        kinds = ", ".join(sorted({f"{run.about('task')} {run.network}" for run in all_runs if run.about("task")}))
        console.print_aside(f"no run fits; there are: {kinds}" if all_runs else f"no runs in {runs_dir}")
        return
    wanted = listed(columns)
    for column in wanted:
        listing.require_column(chosen, column, "--columns")
    shown = list(dict.fromkeys(name for run in chosen if (name := run.main_score)))
    if by not in shown and any(run.score(by) is not None for run in chosen):
        shown.append(by)
    tables = grouped_by(chosen, lambda run: run.about("task") if console.stdout().is_terminal else None)
    for number, part in enumerate(tables.values()):
        if number:
            print()
        scores = [name for name in shown if any(run.score(name) is not None for run in part)]
        _print_runs(part, scores, noted, wanted)
    for run in chosen:
        if run.damage:
            console.print_aside(f"{run.path}: {run.damage}")
        elif fault := run.contents.errors.get("values"):
            console.print_aside(str(fault))


def _print_runs(runs: Sequence["Run"], scores: Sequence[str], noted: Mapping[str, str], wanted: Sequence[str]) -> None:
    """Print runs and their trivial systems as a table.

    Columns are run and those ``wanted``; without any, run, state, layer, at most three settings that differ, the
    scores, parameters, step, and the remarks by run id, if there are any.
    """
    from phmrun.ledger import listing
    from phmrun.results.baselines import listed_baselines

    settings = listing.telling_settings(runs)[:SETTINGS] if not wanted else []
    usual = ["state", "layer", *settings, *scores, "parameters", "step"]
    names = [name for name in wanted or usual if name not in ("name", "run")]  # the first column
    rows = [[run.id, *(listing.value_of(run, name) for name in names)] for run in runs]
    further = ["remarks"] if noted and not wanted else []
    for row, run in zip(rows, runs, strict=True):
        row += [noted[run.id]] if further else []
    for label, values in listed_baselines(runs, shown := [name for name in names if "/" in name]):
        figures = dict(zip(shown, values, strict=True))
        rows.append([label, *(figures.get(name, "") for name in names), *("" for _ in further)])
    endings = [name.rpartition(".")[2] for name in names]
    short = [end if endings.count(end) == 1 else name for end, name in zip(endings, names, strict=True)]
    heads = ["run", *short, *further]
    if console.stdout().is_terminal:
        for row, run in zip(rows, runs, strict=False):
            row[0] = run.id.rpartition("-")[2]
    console.print_table(heads, rows, drop=("step", "parameters", *short[3 : 2 + len(settings)][::-1], "state"))


@app.command("show")
def show(run: RunArgument = LATEST, runs_dir: RunsDirectory = Path("runs"), as_json: Json = False) -> None:
    """Show a run.

    Sections are state, settings that are not at their default, scores, size, end of the history, sample outputs and
    files.
    """
    from phmrun.config import load_run_config, semantic_values
    from phmrun.ledger.directory import entries

    recorded = choose_run(runs_dir, run, lenient=True)
    changed = None
    with suppress(PhmrunError, ImportError):  # the task may be missing in this installation
        changed = semantic_values(load_run_config(recorded.path / "config.yaml"))
    if not as_json:
        _print(recorded, changed)
        return
    facts = {
        "run_id": recorded.id,
        "run_dir": recorded.path,
        "status": recorded.status.to_json() if recorded.status else None,
        "config_differences": changed,
        "metrics": recorded.metrics(),
        "parameters": recorded.parameters(),
        "history": recorded.rows()[-ROWS:],
        "environment": recorded.environment(),
        "samples": recorded.samples(),
        "files": dict(entries(recorded.path)),
        "damage": recorded.faults,
    }
    console.print_json(facts)


@app.command("compare")
def compare(
    runs: RunArguments,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show the differences of runs: settings, parameters, scores, and their histories side by side.

    Of two runs, the difference of scores is the second minus the first. Scores of different signatures are marked. Each
    figure of the history has a table: one row per step, one column per run.
    """
    from phmrun.ledger import Run, listing

    chosen = [Run.find(runs_dir, reference) for reference in runs]
    settings, scores = listing.configurations(chosen), listing.scores(chosen)
    sizes = [run.parameters().get("total") for run in chosen]
    curves = {name: listing.curves(chosen, name) for name in listing.figures(chosen)}
    names = [run.id for run in chosen]
    if as_json:
        facts = {"config": settings, "parameters": sizes, "metrics": scores, "curves": curves}
        console.print_json({"runs": names, **facts})
        return
    rows = [(key, *(None if value is None else str(value) for value in values)) for key, values in settings.items()]
    console.print_table(("setting", *names), [*rows, ("parameters", *sizes)])
    lines = []
    for name, row in scores.items():
        numbers = [value for value in row["values"] if value is not None]
        difference = [numbers[1] - numbers[0] if len(numbers) == 2 else None] if len(chosen) == 2 else []
        lines.append((name, *row["values"], *difference, "" if row["alike"] else "different evaluation settings"))
    print()
    console.print_table(("score", *names, *(["difference"] if len(chosen) == 2 else []), ""), lines)
    for name, points in curves.items():
        print()
        console.print_table((name, *names), [(step, *values) for step, values in points])


@app.command("reproduce")
def reproduce(
    run: RunArgument,
    plugin: Plugin = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Train a finished run again and compare weights and scores bit for bit.

    The new run is in reproduced/ next to it. Prints "identical", or the differences and their possible causes (exit
    code 4; 0 if a former version trained the run with other random numbers).
    """
    plugins = load_plugins(plugin)
    from phmrun.ledger import Run

    original = Run.find(runs_dir, run)
    with waiting("preparing"):
        import phmrun.engine.fit  # noqa: F401  (Lightning takes seconds to import)
        from phmrun.engine import reproduction

    place = original.path.parent / "reproduced"
    result = reproduction.reproduce(original, place, plugins=plugins)
    if as_json:
        facts = {
            "run_id": result.run.id,
            "run_dir": result.run.path,
            "reproduced_dir": result.again.path,
            "identical": result.identical,
            "checkpoints": result.checkpoints,
            "weights": result.weights,
            "compared": result.compared,
            "scores": [row._asdict() for row in result.scores],
            "equal_until_step": result.until,
            "explanations": result.explanations,
            "verdict": result.verdict,
        }
        console.print_json(facts)
    else:
        _print_reproduction(result)
    if not result.identical and result.verdict != reproduction.OTHER_NUMBERS:
        raise typer.Exit(ExitCode.TRAINING)


@app.command("rm")
def remove(
    runs: RunArguments,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Delete runs with all their files.

    A run that a process is working on is not deleted.

    A question is asked first, unless --yes is given; without a terminal, --yes is required.

    Args:
        yes: Delete without a question.
    """
    from phmrun.ledger import Run

    selected = {run.path.resolve(): run for run in (Run.find(runs_dir, reference) for reference in runs)}
    if not yes:
        for run in selected.values():
            console.print_aside(str(run.path))
        console.confirm(f"Delete {counted(len(selected), 'run')}?", "Use --yes to delete without a question.")
    for run in selected.values():
        run.access.remove()
        console.print_aside(f"deleted {run.path}")


def _print(run: "Run", changed: dict[str, Any] | None) -> None:
    """Print a run, section by section.

    ``changed`` are settings that are not at their default; None prints the whole configuration. Sections: state,
    configuration, scores, size and data, last rows of the history, samples, files. Those without content
    are left out; damage is printed on standard error.
    """
    from phmrun.ledger.directory import entries
    from phmrun.ledger.history import in_shown_units
    from phmrun.ledger.wording import counts_in_words, number, score_row, title

    _heading(run.id)
    console.print_table(("", ""), _state(run))
    if changed is None and run.values:
        _heading("Configuration")
        console.print_line(run.config_text.rstrip())
    elif changed:
        _heading("Configuration, where it is not the default")
        console.print_table(("key", "value"), [(key, str(value)) for key, value in changed.items()])
    if run.metrics():
        _heading("Scores")
        rows = [score_row(name, score) for name, score in run.metrics().items()]
        console.print_table(("score", "value", "also", "signature"), rows)
    if run.parameters():
        _heading("Size and data")
        console.print_table(("", ""), counts_in_words(run.parameters()))
    count, last = len(run.rows()), run.rows()[-ROWS:]
    if last:
        columns = list({key: None for row in last for key in row})
        heads = [title(column) if "/" in column else {"time": "time (s)"}.get(column, column) for column in columns]
        _heading(f"The last of {counted(count, 'row')} of history")
        shown = map(in_shown_units, last)
        console.print_table(heads, [[number(row.get(column)) for column in columns] for row in shown])
    if samples := run.samples():
        _heading("Samples")
        console.print_table(samples["columns"], samples["rows"])
    _heading("Files")
    console.print_table(("", "bytes"), list(entries(run.path)))
    for fault in run.faults:
        console.print_aside(fault)


def _state(run: "Run") -> list[tuple[str, Any]]:
    """Return rows (name, value) of the state of a run.

    In this order: directory, task, data, network, seed, state, held by, continue by, step, training time, started,
    updated, ended.
    Rows without a value are left out. A run with a damaged status has directory and state only.
    """
    from phmrun.ledger import State
    from phmrun.ledger.lock import LOCK, living_holder
    from phmrun.ledger.wording import duration

    status = run.status
    if not status:
        return [("directory", str(run.path)), ("state", "damaged")]
    why = f": {status.reason}" if status.reason else ""
    living = living_holder(run.path / LOCK)
    holder = f"process {living.pid} on {living.host}" if living else None
    lines = [
        ("directory", str(run.path)),
        *((key, str(status.about[key])) for key in ("task", "data", "network", "seed") if key in status.about),
        ("state", run.state if run.damage else f"{status.state}{why}"),
        ("held by", holder),
        ("continue by", continuation(run) if status.state in (State.INTERRUPTED, State.FAILED) else None),
        ("step", f"{status.step:,}"),
        ("training time", duration(status.seconds)),
        *((name, getattr(status, name)) for name in ("started", "updated", "ended")),
    ]
    return [(name, value) for name, value in lines if value is not None]


def continuation(run: "Run") -> str:
    """Return the command that continues a run.

    It is ``phmrun train --resume RUN`` with the run's copies of plug-ins; if the run began with the weights of a
    compressed one, the recorded command of its first process.
    """
    if "compresses" in run.fingerprints() and (segments := run.environment()):
        return shlex.join(["phmrun", *segments[0]["command"][1:]])
    plugins = (f" --plugin {shlex.quote(str(path))}" for path in sorted((run.path / "plugins").glob("*.py")))
    return f"phmrun train --resume {run.reference}{''.join(plugins)}"


def _heading(title: str) -> None:
    """Print a heading in bold, after an empty line."""
    console.print_line(f"\n{title}", style="bold")


def _print_reproduction(result: "Reproduction") -> None:
    """Print "identical", or the differences and their possible causes.

    The differences are in weights, scores, and the losses of the history.
    """
    say = console.print_line
    checkpoints = counted(len(result.checkpoints), "checkpoint")
    if result.identical:
        say(f"identical: {checkpoints} and {counted(len(result.compared), 'score')} of {result.run.id}")
        return
    until = "no step" if result.until is None else f"step {result.until:,}"
    say(f"{result.verdict}: weights in {len(result.weights)} of {checkpoints}; losses are equal until {until}")
    if result.scores:
        console.print_table(("score", "before", "again"), [tuple(row) for row in result.scores])
    say("what could explain it:")
    for line in result.explanations:
        say(f"  {line}")
