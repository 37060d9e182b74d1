"""What ``phmrun sweep`` says of a sweep: its plan, how far it is, how it ended. Imported when the verb runs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from phmrun.cli import console
from phmrun.errors import ExitCode
from phmrun.ledger.card import duration
from phmrun.sweeps import Plan
from phmrun.sweeps.cell_status import LEFT, CellState, CellStatus, distinct, tally
from phmrun.sweeps.estimate import Estimate, progress
from phmrun.sweeps.plan import SEED
from phmrun.sweeps.workplace import LOG, last_lines


def show(plan: Plan, stands: Sequence[CellStatus], slots: int) -> None:
    """The cells, their sizes and how far they are; the seeds of one cell in one row."""
    groups: dict[tuple[str, ...], list[CellStatus]] = {}
    for stand in stands:
        place = tuple(f"{key}={value}" for key, value in stand.cell.labels.items() if key != SEED)
        groups.setdefault(place, []).append(stand)
    keys = list(dict.fromkeys(key for stand in stands for key in stand.cell.at if key != SEED))
    rows = []
    for found in groups.values():
        labels = found[0].cell.labels
        rows.append([*(labels.get(key, "") for key in keys), found[0].size, len(found), _counted(tally(found))])
    out = console.stdout()
    if plan.sweep.title:
        out.print(plan.sweep.title, style="italic", markup=False, soft_wrap=True)
    console.print_table([*keys, "parameters", "seeds", "state"], rows)
    if any(isinstance(stand.size, str) for stand in stands):
        out.print("≤: with a vocabulary as large as is asked for; that of the data may be smaller", markup=False)
    for stand in stands:
        if stand.standing is CellState.RUNNING:
            out.print(f"running: {stand.cell.label}{_progress(stand)}", markup=False, soft_wrap=True)
    tell_faults(stands)
    runs = distinct(stands)
    double = sum(stand.cell.run_id is not None for stand in stands) - len(runs)
    parts = [f"{len(stands)} cells: {_counted(tally(stands))}"]
    parts += [f"{double} the same experiment as another"] if double else []
    parts += _time_left(runs, slots)
    out.print("\n" + " · ".join(parts), markup=False, soft_wrap=True)


def facts(plan: Plan, stands: Sequence[CellStatus], slots: int) -> dict[str, Any]:
    """The same as plain values, cell by cell."""
    cells = [
        {
            "at": dict(stand.cell.at),
            "run_id": stand.cell.run_id,
            "state": str(stand.standing),
            "reason": stand.reason or None,
            "parameters": stand.parameters,
            "parameters_are_exact": not isinstance(stand.size, str),
            "metrics": stand.run.metrics if stand.run else {},
        }
        for stand in stands
    ]
    return {
        "sweep": plan.sweep.where,
        "title": plan.sweep.title,
        "cells": cells,
        "counts": {str(kind): count for kind, count in tally(stands).items()},
        "seconds_left": Estimate(stands).total([s for s in distinct(stands) if s.standing in LEFT], slots),
    }


def tell_faults(stands: Iterable[CellStatus]) -> None:
    """Says on stderr which cells cannot be run, and why; a reason once."""
    by_reason: dict[str, list[CellStatus]] = {}
    for stand in stands:
        if stand.cell.fault is not None:
            by_reason.setdefault(str(stand.cell.fault), []).append(stand)
    for reason, found in by_reason.items():
        others = f" and {len(found) - 1} more" if len(found) > 1 else ""
        head = f"{found[0].standing}: {found[0].cell.label}{others}: "
        console.stderr().print(head + reason, markup=False, highlight=False, soft_wrap=True)


def tell_failures(stands: Iterable[CellStatus], bad: Mapping[str, Sequence[str]]) -> None:
    """Says on stderr which runs did not end well, with the last lines that they wrote."""
    err = console.stderr()
    for stand in stands:
        name = str(stand.cell.run_id)
        reason = f": {stand.reason}" if stand.reason else ""
        err.print(f"\n{stand.standing}: {stand.cell.label} ({name}){reason}", markup=False, soft_wrap=True)
        for line in bad.get(name) or (last_lines(stand.run.path / LOG) if stand.run else []):
            err.print(f"  {line}", markup=False, highlight=False, soft_wrap=True)


def outcome(stands: Sequence[CellStatus], bad: Mapping[str, Sequence[str]], as_json: bool) -> ExitCode:
    """Says how the sweep ended; its exit code.

    Args:
        stands: All cells, as they stand now.
        bad: The last lines of the runs that did not end well just now, by their names.
        as_json: Whether the figures are printed otherwise.
    """
    failed = [stand for stand in distinct(stands) if stand.standing is CellState.FAILED or stand.cell.run_id in bad]
    tell_failures(failed, bad)
    if not as_json:
        console.stdout().print(f"{len(stands)} cells: {_counted(tally(stands))}", markup=False)
    if any(stand.cell.run_id not in bad for stand in failed):
        console.stderr().print("--retry-failed runs failed cells again.", markup=False)
    blocked = any(stand.standing is CellState.BLOCKED for stand in stands)
    return ExitCode.SWEEP if failed or blocked else ExitCode.OK


def _counted(counts: Mapping[CellState, int]) -> str:
    return " · ".join(f"{count} {standing}" for standing, count in counts.items())


def _progress(stand: CellStatus) -> str:
    """How far a run is and where."""
    share = progress(stand)
    far = f", {share:.0%} of its steps" if share is not None else ""
    return f"{far}, process {stand.holder.pid} on {stand.holder.host}" if stand.holder else far


def _time_left(runs: Sequence[CellStatus], slots: int) -> list[str]:
    left = [stand for stand in runs if stand.standing in LEFT]
    if not left:
        return []
    seconds = Estimate(runs).total(left, slots)
    if seconds is None:
        return ["the time cannot be told before a cell of each task is done"]
    return [f"about {duration(seconds)} of training left, {slots} at a time"]
