"""Environments of a sweep's runs: a table with their cells, and their differences."""

from collections.abc import Sequence
from itertools import pairwise

from phmrun.ledger import environment, segment
from phmrun.ledger.wording import row_name
from phmrun.sweeps.cell import Cell
from phmrun.sweeps.cell_status import CellStatus

MOST_DIFFERENCES = 12


def environments(statuses: Sequence[CellStatus]) -> tuple[Sequence[str], list[tuple[str, str]], list[str]]:
    """Return columns and rows of a table of environments with their cells, and notes on differences.

    Notes: cells without a record, differences between cells (or that there are none), changes of environment within a
    run. There are no rows without any record. At most 12 differences are named in a note.
    """
    by_cell = {status.cell.label: segment.read_segments(status.run.run) for status in statuses if status.run}
    cells: dict[str, list[Cell]] = {}
    for status in statuses:
        for line in dict.fromkeys(environment.summary(entry) for entry in by_cell.get(status.cell.label, ())):
            cells.setdefault(line, []).append(status.cell)
    notes: list[str] = []
    rows = [(line, "all" if len(cells) == 1 else _by_row(its)) for line, its in cells.items()]
    if unknown := [label for label, segments in by_cell.items() if not segments]:
        notes.append(f"Not on record, since an older version made them: {', '.join(unknown)}.")
    entries = [entry for segments in by_cell.values() for entry in segments]
    changes = dict.fromkeys(change for entry in entries[1:] for change in environment.differences(entries[0], entry))
    if changes:
        notes.append(
            f"The rows were not all made in the same environment: {'; '.join(list(changes)[:MOST_DIFFERENCES])}."
        )
    elif len(by_cell) > 1 and not unknown:
        notes.append("All rows were made in the same environment.")
    for label, segments in by_cell.items():
        for before, after in pairwise(segments):
            # A process that began at step 0, or trained nothing, did not resume in another environment.
            if after.get("first_step") and (changed := environment.differences(before, after)):
                listed = "; ".join(changed[:MOST_DIFFERENCES])
                notes.append(f"{label} went on in another one from step {after['first_step']:,}: {listed}.")
    return ("environment", "cells"), rows, notes


def _by_row(cells: Sequence[Cell]) -> str:
    """Return a text with the cells by row and their seeds.

    As in "phm n=2: seeds 1, 2; phm n=4: seed 1". A row without seeds is its name alone.
    """
    seeds: dict[str, list[str]] = {}
    for cell in cells:
        row = row_name(dict(cell.row))
        seeds.setdefault(row, []).append(cell.labels.get("seed", ""))
    seeds_of = {
        row: f"{'seed' if len(its) == 1 else 'seeds'} {', '.join(its)}" for row, its in seeds.items() if any(its)
    }
    return "; ".join(f"{row}: {seeds_of[row]}" if row in seeds_of else row for row in seeds)
