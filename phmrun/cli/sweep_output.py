"""Output of ``phmrun sweep``: plan, progress and outcome of a sweep.

Imported when the verb runs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

from phmrun.cli import console
from phmrun.errors import ExitCode, counted
from phmrun.files import last_lines, read_text
from phmrun.grouping import grouped_by
from phmrun.ledger.wording import duration, row_name
from phmrun.statistics.welch import detectable_deviations, deviation_of
from phmrun.sweeps.cell_status import LOG, CellState, CellStatus, Estimate, distinct, look, progress, runs_left, tally
from phmrun.sweeps.plan import Plan
from phmrun.sweeps.results import results_of
from phmrun.sweeps.scheduler import Event
from phmrun.sweeps.selection import SEED
from phmrun.sweeps.view import faults


def show(
    plan: Plan, statuses: Sequence[CellStatus], runs_dir: Path, slots: int, as_json: bool
) -> Collection[CellState]:
    """Print the cells, their sizes and states, running and failed cells, and the remaining time.

    Return the states that a cell or trial has.

    The seeds of a cell are in one row. The last line has counts by state of cells and of trials, repeated experiments,
    and the runs and the time left with ``slots`` parallel runs. Cells and trials that cannot run, and the last lines of
    failed cells, are printed on standard error. With ``as_json``, print :func:`facts` instead.
    """
    summary = facts(plan, statuses, runs_dir, slots)
    looked_at = [*statuses, *(look(cell, runs_dir) for cell in plan.trials)]
    states = {status.state for status in looked_at}
    if as_json:
        console.print_json(summary)
        return states
    groups = grouped_by(statuses, attrgetter("cell.row"))
    keys = list(dict.fromkeys(key for status in statuses for key in status.cell.at if key != SEED))
    rows = []
    for group in groups.values():
        labels = group[0].cell.labels
        rows.append([*(labels.get(key, "") for key in keys), group[0].size, _seeds(group), _counted(tally(group))])
    if plan.sweep.title:
        console.print_line(plan.sweep.title, style="italic")
    console.print_table([*keys, "parameters", "seeds", "state"], rows, drop=("parameters",), labels=keys)
    if not all(status.is_exact for status in statuses):
        console.print_line("≤: for the largest vocabulary allowed; the vocabulary of the data may be smaller")
    for status in statuses:
        if status.state is CellState.RUNNING:
            share, holder = progress(status), status.holder
            far = "" if share is None else f", {share:.0%} of its steps"
            where = f", process {holder.pid} on {holder.host}" if holder else ""
            console.print_line(f"running: {status.cell.label}{far}{where}")
    tell_faults(looked_at)
    double = sum(status.cell.run_id is not None for status in statuses) - len(distinct(statuses))
    parts = [f"{counted(len(statuses), 'cell')}: {_counted(summary['counts'])}"]
    if double:
        parts.append(f"{double} the same experiment as another")
    least = "at least " if summary["more_trials"] else ""
    if plan.trials:
        parts.append(f"{counted(len(plan.trials), 'trial')}: {_counted(summary['trials'])}")
        parts.append(f"{least}{counted(summary['runs_left'], 'run')} left")
    if summary["runs_left"]:
        seconds = summary["seconds_left"]
        time = "remaining time unknown until a run of each task is done" if seconds is None else None
        parts.append(time or f"{least}about {duration(seconds)} left, {slots} at a time")
    console.print_line("\n" + " · ".join(parts))
    for line in _power(plan, list(groups.values())):
        console.print_line(line)
    tell_failures([status for status in statuses if status.state is CellState.FAILED and status.run], {})
    return states


def _seeds(cells: Iterable[CellStatus]) -> int:
    """Return the number of experiments; one that stands twice in a sweep counts once."""
    return len({status.cell.run_id or id(status) for status in cells})


def _power(plan: Plan, rows: Sequence[Sequence[CellStatus]]) -> Iterator[str]:
    """Yield the difference that the seeds of a plan are likely to show, before they are trained.

    It is in deviations over seeds and, if a row has two finished seeds, in units of its score: of the row with the most
    finished ones. Baselines have equal shares of the other rows. Nothing for fewer than two counted seeds or without
    other rows.
    """
    seeds = min(_seeds([status for status in group if not status.cell.chose_settings]) for group in rows)  # no pilots
    baselines = sum(entry.is_baseline for entry in results_of(plan, [group[0] for group in rows]).entries) or 1
    if seeds < 2 or len(rows) <= baselines:
        return
    least = detectable_deviations(seeds, -(-len(rows) // baselines) - 1)
    text = f"with {seeds} counted seeds a row, differences from {least:.1f} deviations over seeds on are likely to show"
    done = [[status for status in group if status.state is CellState.DONE and status.run] for group in rows]
    pilots = max(done, key=len)
    name = plan.sweep.file.measure or (pilots[0].run.main_score if pilots and pilots[0].run else None)
    values = [value for s in pilots if s.run and name and (value := s.run.score(name)) is not None]
    if (deviation := deviation_of(values)) is not None:
        text += f": {least * deviation:.2g} {name}, by {len(values)} seeds of {row_name(dict(pilots[0].cell.row))}"
    yield text


def facts(plan: Plan, statuses: Sequence[CellStatus], runs_dir: Path, slots: int) -> dict[str, Any]:
    """Return plan, states and remaining seconds of a sweep, for JSON.

    Keys: sweep, title, cells, counts (by state), trials (counts by state), runs_left, more_trials (True if the search
    will add runs), and seconds_left, None if it cannot be estimated. A cell has at (values by key), run_id, state,
    reason, parameters, parameters_are_exact and metrics, empty without a run. ``slots`` is the number of parallel runs.
    """
    trials = [look(cell, runs_dir) for cell in plan.trials]
    left = runs_left(plan, statuses, trials)
    cells = [
        {
            "at": dict(status.cell.at),
            "run_id": status.cell.run_id,
            "state": str(status.state),
            "reason": status.reason or None,
            "parameters": status.parameters,
            "parameters_are_exact": status.is_exact,
            "metrics": status.run.metrics() if status.run else {},
        }
        for status in statuses
    ]
    return {
        "sweep": plan.sweep.where,
        "title": plan.sweep.title,
        "cells": cells,
        "counts": {str(kind): count for kind, count in tally(statuses).items()},
        "trials": {str(kind): count for kind, count in tally(trials).items()},
        "runs_left": len(left),
        "more_trials": any(status.cell.searching for status in statuses),
        "seconds_left": Estimate(distinct([*trials, *statuses])).total(left, slots),
    }


def tell_faults(statuses: Iterable[CellStatus]) -> None:
    """Print on stderr the cells that cannot run, by :func:`phmrun.sweeps.view.faults`."""
    for line in faults(statuses):
        console.print_aside(line)


def tell_failures(statuses: Iterable[CellStatus], failures: Mapping[str, Event]) -> None:
    """Print on stderr the failed runs, with the last lines of their logs.

    ``failures`` are events with log lines, by run id; without any, they are read from ``output.log`` in the run's
    directory.
    """
    for status in statuses:
        name = str(status.cell.run_id)
        reason = f": {status.reason}" if status.reason else ""
        console.print_aside(f"\n{status.state}: {status.cell.label} ({name}){reason}")
        lines = failures[name].log if name in failures else []
        for line in lines or (last_lines(status.run.path / LOG) if status.run else []):
            console.print_aside(f"  {line}")


def tell_script(path: Path | None, runs: int, job: str | None, summary: Mapping[str, Any] | None) -> None:
    """Print the number of a SLURM job, or its script if it was not submitted.

    Args:
        path: The script; None: there is nothing to submit.
        runs: Number of its runs.
        job: SLURM's number; None: it was not submitted.
        summary: Keys of a JSON value, to which "script" (the path) and "job" are added; None: print text.
    """
    if path and job is None:
        console.print_aside(f"submit it by: sbatch {path}")
    if summary is not None:
        console.print_json({**summary, "script": path, "job": job})
    elif job is not None:
        console.print_line(f"{counted(runs, 'run')} submitted as SLURM job {job}")
    elif path:
        print(read_text(path), end="")


def outcome(statuses: Sequence[CellStatus], failures: Mapping[str, Event], as_json: bool) -> ExitCode:
    """Print the outcome of a sweep and return its exit code.

    Args:
        statuses: States of all cells.
        failures: Events of the runs that failed in this call, by run id.
        as_json: Print failures only.

    Returns:
        ``ExitCode.SWEEP`` if a run has failed, in this call or before, or a cell cannot run: it is invalid, its data
        are missing, or no trial of it has a score; otherwise ``ExitCode.OK``.
    """
    failed = [s for s in distinct(statuses) if s.state is CellState.FAILED or s.cell.run_id in failures]
    tell_failures(failed, failures)
    if not as_json:
        console.print_line(f"{counted(len(statuses), 'cell')}: {_counted(tally(statuses))}")
    if any(status.cell.run_id not in failures for status in failed):
        console.print_aside("--retry-failed runs failed cells again.")
    return ExitCode.SWEEP if failed or any(status.cell.fault for status in statuses) else ExitCode.OK


def _counted(counts: Mapping[Any, int]) -> str:
    """Return the count of each state: "3 done · 1 failed"."""
    return " · ".join(f"{count} {state}" for state, count in counts.items())
