"""``phmrun runs``: what has been run, what came of it, and removing it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from phmrun.cli import completion, console, runs_reproduce
from phmrun.cli.options import Json, RunArgument, RunsDirectory
from phmrun.errors import PhmrunError, unknown

if TYPE_CHECKING:
    from phmrun.ledger.comparison import ScoreRow
    from phmrun.ledger.description import Description
    from phmrun.ledger.listing import RunSummary

app = typer.Typer(help="Run directories: list, show, compare, archive, remove.", no_args_is_help=True)

RunArguments = Annotated[
    list[str],
    typer.Argument(metavar="RUN…", help="Run ids, their unique beginnings, or paths.", autocompletion=completion.runs),
]

FILTER = "Filter"
_ROWS_OF_HISTORY = 5
_UNITS = {"time": "time (s)"}


@app.command("list")
def list_runs(
    *,
    task: Annotated[
        str | None, typer.Option(help="Only this task.", rich_help_panel=FILTER, autocompletion=completion.tasks)
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            help="Only this structure or number: phm, n=8, 'phm n=8'.",
            rich_help_panel=FILTER,
            autocompletion=completion.layers,
        ),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Only this data set.", rich_help_panel=FILTER, autocompletion=completion.datasets)
    ] = None,
    state: Annotated[
        str | None,
        typer.Option(help="Only queued, running, done, failed, interrupted or damaged runs.", rich_help_panel=FILTER),
    ] = None,
    sort: Annotated[
        str,
        typer.Option(
            help="Column to sort by: name, state, layer, parameters, step, seconds, updated … or a score such as "
            "test/bleu; a leading - turns the order round: --sort=-test/bleu.",
            autocompletion=completion.columns,
        ),
    ] = "name",
    scores: Annotated[
        str | None,
        typer.Option(
            metavar="NAME,…|all", help="Scores to show (default: each run's main one, and what is sorted by)."
        ),
    ] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Lists the runs with state, layer, size and scores."""
    from phmrun.ledger import listing

    found = listing.list_runs(runs_dir)
    chosen = listing.sort(listing.select(found, task=task, layer=layer, data=data, state=state), sort)
    if as_json:
        console.print_json([run.to_json() for run in chosen])
        return
    if not chosen:
        kinds = ", ".join(sorted({f"{run.about('task')} {run.network}" for run in found}))
        console.stderr().print(f"no run fits; there are: {kinds}" if found else f"no runs in {runs_dir}", markup=False)
        return
    shown = _scores(chosen, scores, sort.removeprefix("-"))
    rows = [
        [
            run.id,
            run.state,
            run.network,
            run.about("parameters"),
            run.status.step if run.status else None,
            *(run.score(name) for name in shown),
        ]
        for run in chosen
    ]
    console.print_table(("run", "state", "layer", "parameters", "step", *shown), rows)
    for run in chosen:
        if run.damage:
            console.stderr().print(f"{run.path}: {run.damage}", markup=False, soft_wrap=True)


def _scores(chosen: "list[RunSummary]", asked: str | None, sorted_by: str) -> list[str]:
    """The scores that a listing shows.

    Raises:
        PhmrunError: No run has a score that was asked for.
    """
    from phmrun.ledger import listing

    if asked is None:
        main = dict.fromkeys(name for run in chosen if (name := run.main_score))
        return list(main | ({sorted_by: None} if any(run.score(sorted_by) is not None for run in chosen) else {}))
    known = listing.score_names(chosen)
    if asked == "all":
        return known
    names = [name.strip() for name in asked.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise unknown("score", name, known, where="--scores")
    return names


@app.command("show")
def show(run: RunArgument, *, runs_dir: RunsDirectory = Path("runs"), as_json: Json = False) -> None:
    """Shows one run: state, configuration, scores, size, the last of its history, sample outputs, files."""
    from phmrun.ledger import Run
    from phmrun.ledger.description import describe

    description = describe(Run.find(runs_dir, run))
    changed = _differences(description.path / "config.yaml")
    if as_json:
        console.print_json(_as_json(description, changed))
    else:
        _print(description, changed)


@app.command("diff")
def diff(
    run: RunArgument,
    other: Annotated[
        str, typer.Argument(metavar="OTHER", help="The run to compare it with.", autocompletion=completion.runs)
    ],
    *,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Shows in what two runs differ: settings, sizes, scores."""
    from phmrun.ledger import Run, comparison

    pair = [Run.find(runs_dir, reference) for reference in (run, other)]
    settings, scores = comparison.configurations(pair), comparison.scores(pair)
    sizes = [each.parameters().get("total") for each in pair]
    if as_json:
        facts = {
            "runs": [each.id for each in pair],
            "config": {row.key: row.values for row in settings},
            "parameters": sizes,
            "metrics": {row.name: {"values": row.values, "alike": row.alike} for row in scores},
        }
        console.print_json(facts)
        return
    names = [each.id for each in pair]
    rows = [(row.key, *(_said(value) for value in row.values)) for row in settings]
    console.print_table(("setting", *names), [*rows, ("parameters", *sizes)])
    console.stdout().print()
    console.print_table(("score", *names, "difference", ""), [_score_row(row) for row in scores])


@app.command("compare")
def compare(
    runs: RunArguments,
    *,
    figure: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Of the history: val/loss, train/loss … (default: all of validations)."),
    ] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Shows the course of training of some runs side by side; `phmrun plot history` draws it."""
    from phmrun.ledger import Run, comparison

    found = [Run.find(runs_dir, reference) for reference in runs]
    wanted = figure or comparison.figures(found)
    if not wanted:
        raise PhmrunError("none of these runs has been validated yet", hint="Name a figure: --figure train/loss.")
    curves = {name: comparison.curves(found, name) for name in wanted}
    if as_json:
        console.print_json({"runs": [run.id for run in found], "curves": curves})
        return
    for name, rows in curves.items():
        console.print_table((name, *(run.id for run in found)), [(step, *values) for step, values in rows])
        console.stdout().print()


app.command("reproduce")(runs_reproduce.reproduce)


@app.command("archive")
def archive_runs(
    runs: RunArguments,
    *,
    to: Annotated[Path, typer.Option(metavar="FILE.tar.gz", help="The file to write.", dir_okay=False)],
    checkpoints: Annotated[bool, typer.Option("--checkpoints/--no-checkpoints", help="Pack the weights too.")] = True,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Packs runs into one file, from which `tar -xzf` makes them again; nothing is deleted."""
    from phmrun.ledger import Run
    from phmrun.ledger.archive import archive

    found = [Run.find(runs_dir, reference) for reference in runs]
    size = archive(found, to, checkpoints=checkpoints)
    packed = "1 run" if len(found) == 1 else f"{len(found)} runs"
    console.stdout().print(f"{to}: {packed}, {size:,} bytes", markup=False, soft_wrap=True)


@app.command("unlock")
def unlock(run: RunArgument, *, runs_dir: RunsDirectory = Path("runs")) -> None:
    """Removes the lock of a process that is gone, on whatever machine, once no sign of life was seen for a while."""
    from phmrun.ledger import Run
    from phmrun.ledger.lock import HEARTBEAT, WATCHED_BEATS

    found = Run.find(runs_dir, run)
    console.stderr().print(f"watching {found.id} for up to {WATCHED_BEATS * HEARTBEAT:.0f} seconds …", highlight=False)
    holder = found.unlock()
    said = f"process {holder.pid} on {holder.host} held it, and is gone" if holder else "it was not locked"
    console.stdout().print(f"{found.id} is free: {said}", markup=False, highlight=False, soft_wrap=True)


@app.command("rm")
def remove(
    runs: RunArguments,
    *,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDirectory = Path("runs"),
) -> None:
    """Deletes runs with everything in them; a run that a process is working on is refused."""
    from phmrun.ledger import Run

    found = {run.path.resolve(): run for run in (Run.find(runs_dir, reference) for reference in runs)}
    if not yes:
        if not _can_ask():
            raise PhmrunError("there is nobody to ask whether to delete", hint="Say --yes to delete unasked.")
        for run in found.values():
            console.stderr().print(str(run.path), markup=False, soft_wrap=True)
        typer.confirm(f"Delete {len(found)} run{'s' if len(found) > 1 else ''}?", abort=True, err=True)
    for run in found.values():
        run.remove()
        console.stderr().print(f"deleted {run.path}", markup=False, soft_wrap=True)


def _said(value: Any) -> str | None:
    return None if value is None else str(value)


def _score_row(row: "ScoreRow") -> tuple[Any, ...]:
    """A score of two runs, their difference, and a word where they are not measured alike."""
    first, second = row.values
    difference = None if first is None or second is None else second - first
    return row.name, first, second, difference, "" if row.alike else "not measured alike"


def _can_ask() -> bool:
    """Whether somebody sits at the other end."""
    return sys.stdin.isatty()


def _differences(path: Path) -> dict[str, Any] | None:
    """The values of a config that are not the defaults; ``None`` if this installation cannot tell."""
    from phmrun.config import load_run_config, semantic_values

    try:
        return semantic_values(load_run_config(path))
    except (PhmrunError, ImportError):
        return None


def _as_json(description: "Description", changed: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "run_id": description.id,
        "run_dir": str(description.path),
        "status": description.status.to_json() if description.status else None,
        "config_differences": changed,
        "metrics": description.metrics,
        "parameters": description.parameters,
        "history": description.history[-_ROWS_OF_HISTORY:],
        "environment": description.environment,
        "samples": description.samples,
        "files": {entry.name: entry.size for entry in description.entries},
        "damage": description.damage,
    }


def _print(description: "Description", changed: dict[str, Any] | None) -> None:
    """The run as a document on standard output."""
    from phmrun.ledger.card import number, score_row
    from phmrun.ledger.history import in_shown_units
    from phmrun.ledger.wording import counts_in_words, explained, title

    _heading(description.id)
    console.print_table(("", ""), _state(description))
    if changed is None:
        _heading("Configuration")
        console.stdout().print(description.config.rstrip(), markup=False, soft_wrap=True)
    elif changed:
        _heading("Configuration, where it is not the default")
        console.print_table(("key", "value"), [(key, str(value)) for key, value in changed.items()])
    if description.metrics:
        _heading("Scores")
        rows = [score_row(name, score) for name, score in description.metrics.items()]
        console.print_table(("score", "value", "also", "signature"), rows)
        for line in explained([*description.metrics]):
            console.stdout().print(line, markup=False, soft_wrap=True)
    if description.parameters:
        _heading("Size and data")
        console.print_table(("", ""), counts_in_words(description.parameters))
    if description.history:
        last = description.history[-_ROWS_OF_HISTORY:]
        columns = list({key: None for row in last for key in row})
        heads = [title(column) if "/" in column else _UNITS.get(column, column) for column in columns]
        _heading(f"The last of {len(description.history):,} rows of history")
        shown = map(in_shown_units, last)
        console.print_table(heads, [[number(row.get(column)) for column in columns] for row in shown])
    if description.environment:
        from phmrun.ledger.environment import said

        _heading("Made on")
        for row in said(description.environment):
            console.stdout().print(row, markup=False, soft_wrap=True)
    if description.samples:
        _heading("Samples")
        console.print_table(description.samples["columns"], description.samples["rows"])
    _heading("Files")
    console.print_table(("", "bytes", ""), [(entry.name, entry.size, entry.meaning) for entry in description.entries])
    for damage in description.damage:
        console.stderr().print(damage, markup=False, soft_wrap=True)


def _state(description: "Description") -> list[tuple[str, Any]]:
    """What the run is and does, line by line."""
    from phmrun.ledger.card import duration

    status = description.status
    if status is None:
        return [("directory", str(description.path)), ("state", "damaged")]
    why = f": {status.reason}" if status.reason else ""
    holder = f"process {description.holder.pid} on {description.holder.host}" if description.holder else None
    lines = [
        ("directory", str(description.path)),
        *((key, str(status.about[key])) for key in ("task", "data", "network", "seed") if key in status.about),
        ("state", f"{status.state}{why}"),
        ("held by", holder),
        ("step", f"{status.step:,}"),
        ("training time", duration(status.seconds)),
        *((name, getattr(status, name)) for name in ("started", "updated", "ended")),
    ]
    return [(name, value) for name, value in lines if value is not None]


def _heading(title: str) -> None:
    console.stdout().print(f"\n{title}", style="bold", markup=False, soft_wrap=True)
