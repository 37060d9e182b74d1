"""``phmrun runs show``: a run, section by section."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phmrun.cli import console
from phmrun.cli.options import Json, RunArgument, RunsDirectory
from phmrun.errors import PhmrunError

if TYPE_CHECKING:
    from phmrun.ledger import RecordedRun


def show(run: RunArgument, runs_dir: RunsDirectory = Path("runs"), as_json: Json = False) -> None:
    """Show a run.

    Sections are state, settings that are not at their default, scores, size, end of the history, environment, sample
    outputs and files.
    """
    from phmrun.config import load_run_config, semantic_values
    from phmrun.ledger import Run
    from phmrun.ledger.recorded_run import RecordedRun

    recorded = RecordedRun(Run.find(runs_dir, run))
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
        "metrics": recorded.metrics,
        "parameters": recorded.parameters,
        "history": recorded.history,
        "environment": recorded.environment,
        "samples": recorded.samples,
        "files": {entry.name: entry.size for entry in recorded.entries},
        "damage": recorded.faults,
    }
    console.print_json(facts)


def _print(run: "RecordedRun", changed: dict[str, Any] | None) -> None:
    """Print a run, section by section.

    ``changed`` are settings that are not at their default; None prints the whole configuration. Sections: state,
    configuration, scores, size and data, last rows of the history, environment, samples, files. Those without content
    are left out; damage is printed on standard error.
    """
    from phmrun.ledger.card import number, score_row
    from phmrun.ledger.history import in_shown_units
    from phmrun.ledger.wording import counts_in_words, explained, title

    _heading(run.id)
    console.print_table(("", ""), _state(run))
    if changed is None:
        _heading("Configuration")
        console.stdout().print(run.config.rstrip(), markup=False, soft_wrap=True)
    elif changed:
        _heading("Configuration, where it is not the default")
        console.print_table(("key", "value"), [(key, str(value)) for key, value in changed.items()])
    if run.metrics:
        _heading("Scores")
        rows = [score_row(name, score) for name, score in run.metrics.items()]
        console.print_table(("score", "value", "also", "signature"), rows)
        for line in explained([*run.metrics]):
            console.stdout().print(line, markup=False, soft_wrap=True)
    if run.parameters:
        _heading("Size and data")
        console.print_table(("", ""), counts_in_words(run.parameters))
    if run.history:
        last = run.history
        columns = list({key: None for row in last for key in row})
        heads = [title(column) if "/" in column else {"time": "time (s)"}.get(column, column) for column in columns]
        _heading(f"The last of {run.history_rows:,} rows of history")
        shown = map(in_shown_units, last)
        console.print_table(heads, [[number(row.get(column)) for column in columns] for row in shown])
    if run.environment:
        from phmrun.ledger.environment import process_lines

        _heading("Made on")
        for row in process_lines(run.environment):
            console.stdout().print(row, markup=False, soft_wrap=True)
    if run.samples:
        _heading("Samples")
        console.print_table(run.samples["columns"], run.samples["rows"])
    _heading("Files")
    console.print_table(("", "bytes", ""), [(entry.name, entry.size, entry.meaning) for entry in run.entries])
    for fault in run.faults:
        console.stderr().print(fault, markup=False, soft_wrap=True)


def _state(run: "RecordedRun") -> list[tuple[str, Any]]:
    """Return rows (name, value) of the state of a run.

    In this order: directory, task, data, network, seed, state, held by, step, training time, started, updated, ended.
    Rows without a value are left out. A damaged run has directory and state only.
    """
    from phmrun.ledger.card import duration

    status = run.status
    if status is None:
        return [("directory", str(run.path)), ("state", "damaged")]
    why = f": {status.reason}" if status.reason else ""
    holder = f"process {run.holder.pid} on {run.holder.host}" if run.holder else None
    lines = [
        ("directory", str(run.path)),
        *((key, str(status.about[key])) for key in ("task", "data", "network", "seed") if key in status.about),
        ("state", f"{status.state}{why}"),
        ("held by", holder),
        ("step", f"{status.step:,}"),
        ("training time", duration(status.seconds)),
        *((name, getattr(status, name)) for name in ("started", "updated", "ended")),
    ]
    return [(name, value) for name, value in lines if value is not None]


def _heading(title: str) -> None:
    """Print a heading in bold, after an empty line."""
    console.stdout().print(f"\n{title}", style="bold", markup=False, soft_wrap=True)
