"""``phmrun runs``: list, show, compare, reproduce, archive, unlock and remove runs."""

import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from phmrun.cli import completion, console, runs_reproduce, runs_show
from phmrun.cli.docstrings import VerbGroup
from phmrun.cli.options import Json, RunArgument, RunsDirectory
from phmrun.errors import PhmrunError, counted, unknown

if TYPE_CHECKING:
    from phmrun.ledger import RecordedRun, Run

app = VerbGroup(help="Run directories: list, show, compare, archive, remove.", no_args_is_help=True)

RunArguments = Annotated[
    list[str],
    typer.Argument(metavar="RUN…", help="Run ids, unique prefixes of them, or paths.", autocompletion=completion.runs),
]

chosen_by = partial(typer.Option, rich_help_panel="Filter")


@app.command("list")
def list_runs(
    task: Annotated[str | None, chosen_by(autocompletion=completion.tasks)] = None,
    layer: Annotated[str | None, chosen_by(autocompletion=completion.layers)] = None,
    data: Annotated[str | None, chosen_by(autocompletion=completion.datasets)] = None,
    state: Annotated[str | None, chosen_by()] = None,
    sort: Annotated[str, typer.Option(autocompletion=completion.columns)] = "name",
    scores: Annotated[str | None, typer.Option(metavar="NAME,…|all")] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """List runs with state, layer, parameters, step and scores, then the trivial systems scored beside them.

    A terminal shows a table for each task. Damaged runs are listed, too; their damage is printed on standard error.

    If none fits, a message on standard error names the runs that there are. Runs sorted by a score have remarks: a
    single seed, or the built-in corpus.

    Args:
        task: Only runs of this task.
        layer: Only runs of this structure or option: phm, n=8, 'phm n=8'.
        data: Only runs on this dataset.
        state: Only runs in this state: queued, running, done, failed, interrupted, damaged.
        sort: Column to sort by: name, state, layer, parameters, step, seconds, updated … or a score such as test/bleu;
            a leading - reverses the order: --sort=-test/bleu.
        scores: Scores to show (default: each run's main score, and the one of --sort).
    """
    from phmrun.ledger import listing

    all_runs = listing.list_runs(runs_dir)
    chosen = listing.sort(listing.select(all_runs, task=task, layer=layer, data=data, state=state), sort)
    names, by = listing.score_names(chosen), sort.removeprefix("-")
    noted = {}
    if by in names:
        from phmrun.results.baselines import remarks

        noted = dict(zip((run.id for run in chosen), remarks(chosen, by), strict=True))
    if as_json:
        console.print_json([run.to_json() | ({"remarks": noted[run.id]} if noted else {}) for run in chosen])
        return
    if not chosen:
        kinds = ", ".join(sorted({f"{run.about('task')} {run.network}" for run in all_runs}))
        console.stderr().print(
            f"no run fits; there are: {kinds}" if all_runs else f"no runs in {runs_dir}", markup=False
        )
        return
    if scores is None:
        shown = list(dict.fromkeys(name for run in chosen if (name := run.main_score)))
        if by not in shown and any(run.score(by) is not None for run in chosen):
            shown.append(by)
    else:
        shown = names if scores == "all" else [name.strip() for name in scores.split(",") if name.strip()]
        for name in shown:
            if name not in names:
                raise unknown("score", name, names, where="--scores")
    for number, part in enumerate(_by_task(chosen) if console.stdout().is_terminal else [chosen]):
        if number:
            print()
        _print_runs(part, [name for name in shown if any(run.score(name) is not None for run in part)], noted)
    for run in chosen:
        if run.damage:
            console.stderr().print(f"{run.path}: {run.damage}", markup=False, soft_wrap=True)


def _by_task(runs: Sequence["RecordedRun"]) -> list[list["RecordedRun"]]:
    """Return runs in a list for each task, in the order of their first runs."""
    groups: dict[object, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(run.about("task"), []).append(run)
    return list(groups.values())


def _print_runs(runs: Sequence["RecordedRun"], scores: Sequence[str], noted: Mapping[str, str]) -> None:
    """Print runs and their trivial systems as a table with these scores.

    Columns are run, state, layer, parameters, step, the scores, and the remarks by run id, if there are any.
    """
    from phmrun.results.baselines import listed_baselines

    rows = []
    for run in runs:
        step = run.status.step if run.status else None
        figures = [run.score(name) for name in scores]
        rows.append([run.id, run.state, run.network, run.about("parameters"), step, *figures])
        rows[-1] += [noted[run.id]] if noted else []
    further = ["remarks"] if noted else []
    rows += [
        [name, "", "", None, None, *values, *("" for _ in further)] for name, values in listed_baselines(runs, scores)
    ]
    columns = ("run", "state", "layer", "parameters", "step", *scores, *further)
    console.print_table(columns, rows, drop=("step", "parameters", "state", "layer"))


def _column_titles(runs: Sequence["Run"]) -> list[str]:
    """Return the titles of columns of runs: their ids, so that a file has them.

    On a terminal the ids are printed first, and the titles are their last twelve digits, which name a run, too.
    """
    if not console.stdout().is_terminal:
        return [run.id for run in runs]
    for run in runs:
        console.stdout().print(run.id, markup=False, highlight=False, soft_wrap=True)
    console.stdout().print()
    return [run.id.rpartition("-")[2] for run in runs]


app.command("show")(runs_show.show)


@app.command("diff")
def diff(
    run: RunArgument,
    other: Annotated[str, typer.Argument(metavar="OTHER", autocompletion=completion.runs)],
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show the differences of two runs: settings, parameters, scores.

    A difference of scores is OTHER minus RUN. Scores of different signatures are marked.

    Args:
        other: Run to compare it with.
    """
    from phmrun.ledger import Run, comparison

    pair = [Run.find(runs_dir, reference) for reference in (run, other)]
    settings, scores = comparison.configurations(pair), comparison.scores(pair)
    sizes = [item.parameters().get("total") for item in pair]
    if as_json:
        facts = {
            "runs": [item.id for item in pair],
            "config": {row.key: row.values for row in settings},
            "parameters": sizes,
            "metrics": {row.name: {"values": row.values, "alike": row.alike} for row in scores},
        }
        console.print_json(facts)
        return
    names = _column_titles(pair)
    rows = [(row.key, *(None if value is None else str(value) for value in row.values)) for row in settings]
    console.print_table(("setting", *names), [*rows, ("parameters", *sizes)])
    console.stdout().print()
    lines = []
    for row in scores:
        first, second = row.values
        difference = None if first is None or second is None else second - first
        lines.append((row.name, first, second, difference, "" if row.alike else "not measured alike"))
    console.print_table(("score", *names, "difference", ""), lines)


@app.command("compare")
def compare(
    runs: RunArguments,
    figure: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Show the histories of runs side by side.

    Each figure has a table: one row per step, one column per run. `phmrun plot history` plots them.

    Args:
        figure: Figure of the history: val/loss, train/loss … (default: all of validations); may be repeated.
    """
    from phmrun.ledger import Run, comparison

    selected = [Run.find(runs_dir, reference) for reference in runs]
    wanted = figure or comparison.figures(selected)
    if not wanted:
        raise PhmrunError("none of these runs has been validated yet", hint="Name a figure: --figure train/loss.")
    curves = {name: comparison.curves(selected, name) for name in wanted}
    if as_json:
        console.print_json({"runs": [run.id for run in selected], "curves": curves})
        return
    names = _column_titles(selected)
    for name, rows in curves.items():
        console.print_table((name, *names), [(step, *values) for step, values in rows])
        console.stdout().print()


app.command("reproduce")(runs_reproduce.reproduce)


@app.command("archive")
def archive_runs(
    runs: RunArguments,
    to: Annotated[Path, typer.Option("--out", "--to", metavar="FILE.tar.gz", dir_okay=False)],
    checkpoints: Annotated[bool, typer.Option("--checkpoints/--no-checkpoints")] = True,
    runs_dir: RunsDirectory = Path("runs"),
    as_json: Json = False,
) -> None:
    """Pack runs into one archive, which `tar -xzf` unpacks.

    The runs are kept.

    Args:
        to: Archive to write.
        checkpoints: Include the weights.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.record import archive

    selected = [Run.find(runs_dir, reference) for reference in runs]
    size = archive(selected, to, checkpoints=checkpoints)
    if as_json:
        console.print_json({"file": to, "bytes": size, "runs": [run.id for run in selected]})
        return
    console.stdout().print(f"{to}: {counted(len(selected), 'run')}, {size:,} bytes", markup=False, soft_wrap=True)


@app.command("unlock")
def unlock(run: RunArgument, runs_dir: RunsDirectory = Path("runs"), as_json: Json = False) -> None:
    """Remove the lock of a process that no longer runs, on any machine.

    The lock is watched first. It is an error if its process shows a heartbeat.
    """
    from phmrun.ledger import Run
    from phmrun.ledger.lock import HEARTBEAT, WATCHED_BEATS

    locked = Run.find(runs_dir, run)
    console.stderr().print(f"watching {locked.id} for up to {WATCHED_BEATS * HEARTBEAT:.0f} seconds …", highlight=False)
    holder = locked.unlock()
    if as_json:
        console.print_json({"run_id": locked.id, "held_by": vars(holder) if holder else None})
        return
    state = f"process {holder.pid} on {holder.host} held it, and is gone" if holder else "it was not locked"
    console.stdout().print(f"{locked.id} is free: {state}", markup=False, highlight=False, soft_wrap=True)


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
        if not _can_ask():
            raise PhmrunError(
                "standard input is not a terminal, to confirm", hint="Use --yes to delete without a question."
            )
        for run in selected.values():
            console.stderr().print(str(run.path), markup=False, soft_wrap=True)
        typer.confirm(f"Delete {len(selected)} run{'s' if len(selected) > 1 else ''}?", abort=True, err=True)
    for run in selected.values():
        run.remove()
        console.stderr().print(f"deleted {run.path}", markup=False, soft_wrap=True)


def _can_ask() -> bool:
    """Return True if standard input is a terminal."""
    return sys.stdin.isatty()
