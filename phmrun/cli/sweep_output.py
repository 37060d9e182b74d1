"""Output of ``phmrun sweep``: plan, progress and outcome of a sweep.

Imported when the verb runs.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from phmrun.cli import console
from phmrun.errors import ExitCode, counted
from phmrun.files import last_lines
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import CellState, CellStatus, Estimate, distinct, look, progress, runs_left, tally
from phmrun.sweeps.selection import SEED
from phmrun.sweeps.workplace import LOG


def show(plan: Plan, statuses: Sequence[CellStatus], runs_dir: Path, slots: int, as_json: bool) -> None:
    """Print the cells, their sizes and states, running cells and the remaining time.

    The seeds of a cell are in one row. The last line has counts by state of cells and of trials, repeated experiments,
    and the runs and the time left with ``slots`` parallel runs. Cells that cannot run are printed on standard error.
    With ``as_json``, print :func:`facts` instead.
    """
    if as_json:
        console.print_json(facts(plan, statuses, runs_dir, slots))
        return
    groups: dict[tuple[tuple[str, str], ...], list[CellStatus]] = {}
    for status in statuses:
        groups.setdefault(status.cell.row, []).append(status)
    keys = list(dict.fromkeys(key for status in statuses for key in status.cell.at if key != SEED))
    rows = []
    for group in groups.values():
        labels = group[0].cell.labels
        rows.append([*(labels.get(key, "") for key in keys), group[0].size, len(group), _counted(tally(group))])
    out = console.stdout()
    if plan.sweep.title:
        out.print(plan.sweep.title, style="italic", markup=False, soft_wrap=True)
    console.print_table([*keys, "parameters", "seeds", "state"], rows, drop=("parameters",), labels=keys)
    if any(isinstance(status.size, str) for status in statuses):
        out.print("≤: for the largest vocabulary allowed; the vocabulary of the data may be smaller", markup=False)
    for status in statuses:
        if status.state is CellState.RUNNING:
            share, holder = progress(status), status.holder
            far = "" if share is None else f", {share:.0%} of its steps"
            where = f", process {holder.pid} on {holder.host}" if holder else ""
            out.print(f"running: {status.cell.label}{far}{where}", markup=False, soft_wrap=True)
    tell_faults(statuses)
    runs = distinct(statuses)
    double = sum(status.cell.run_id is not None for status in statuses) - len(runs)
    parts = [f"{counted(len(statuses), 'cell')}: {_counted(tally(statuses))}"]
    if double:
        parts.append(f"{double} the same experiment as another")
    trials = [look(cell, runs_dir) for cell in plan.trials]
    if trials:
        parts.append(f"{counted(len(trials), 'trial')}: {_counted(tally(trials))}")
    if left := runs_left(plan, statuses, trials):
        estimate = Estimate([*distinct(trials), *runs])
        seconds = estimate.total(left, slots)
        least = "at least " if any(status.cell.searching for status in [*trials, *statuses]) else ""
        if trials:
            parts.append(f"{least}{counted(len(left), 'run')} left")
        if seconds is None:
            parts.append("remaining time unknown until a run of each task is done")
        else:
            parts.append(f"{estimate.text(seconds, left)} left, {slots} at a time")
    out.print("\n" + " · ".join(parts), markup=False, soft_wrap=True)


def facts(plan: Plan, statuses: Sequence[CellStatus], runs_dir: Path, slots: int) -> dict[str, Any]:
    """Return plan, states and remaining seconds of a sweep, for JSON.

    Keys: sweep, title, cells, counts (by state), trials (counts by state), runs_left, and seconds_left, None if it
    cannot be estimated. A cell has at
    (values by key), run_id, state, reason, parameters, parameters_are_exact and metrics, empty without a run. ``slots``
    is the number of parallel runs.
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
            "parameters_are_exact": not isinstance(status.size, str),
            "metrics": status.run.metrics if status.run else {},
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
        "seconds_left": Estimate(distinct([*trials, *statuses])).total(left, slots),
    }


def tell_faults(statuses: Iterable[CellStatus]) -> None:
    """Print on stderr the cells that cannot run, one line for each reason.

    The line has the first cell's state and label, and the number of others.
    """
    by_reason: dict[str, list[CellStatus]] = {}
    for status in statuses:
        if status.cell.fault is not None:
            by_reason.setdefault(str(status.cell.fault), []).append(status)
    for reason, group in by_reason.items():
        others = f" and {len(group) - 1} more" if len(group) > 1 else ""
        head = f"{group[0].state}: {group[0].cell.label}{others}: "
        console.stderr().print(head + reason, markup=False, highlight=False, soft_wrap=True)


def tell_failures(statuses: Iterable[CellStatus], bad: Mapping[str, Sequence[str]]) -> None:
    """Print on stderr the failed runs, with the last lines of their logs.

    ``bad`` holds log lines by run id; without any, they are read from ``output.log`` in the run's directory.
    """
    err = console.stderr()
    for status in statuses:
        name = str(status.cell.run_id)
        reason = f": {status.reason}" if status.reason else ""
        err.print(f"\n{status.state}: {status.cell.label} ({name}){reason}", markup=False, soft_wrap=True)
        for line in bad.get(name) or (last_lines(status.run.path / LOG) if status.run else []):
            err.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def outcome(statuses: Sequence[CellStatus], bad: Mapping[str, Sequence[str]], as_json: bool) -> ExitCode:
    """Print the outcome of a sweep and return its exit code.

    Args:
        statuses: States of all cells.
        bad: Last log lines of the runs that failed in this call, by run id.
        as_json: Print failures only.

    Returns:
        ``ExitCode.SWEEP`` if a run has failed, in this call or before, or a cell is blocked because its data are
        missing, or failed because no trial of it has a score; otherwise ``ExitCode.OK``.
    """
    failed = [status for status in distinct(statuses) if status.state is CellState.FAILED or status.cell.run_id in bad]
    tell_failures(failed, bad)
    if not as_json:
        console.stdout().print(f"{counted(len(statuses), 'cell')}: {_counted(tally(statuses))}", markup=False)
    if any(status.cell.run_id not in bad for status in failed):
        console.stderr().print("--retry-failed runs failed cells again.", markup=False)
    unable = any(status.state in (CellState.BLOCKED, CellState.FAILED) for status in statuses)
    return ExitCode.SWEEP if failed or unable else ExitCode.OK


def _counted(counts: Mapping[CellState, int]) -> str:
    """Return the count of each state: "3 done · 1 failed"."""
    return " · ".join(f"{count} {state}" for state, count in counts.items())
