"""On what the runs of a sweep were made, and where that differs between them or within one."""

import itertools
from collections.abc import Sequence

from phmrun.ledger import Run
from phmrun.ledger.environment import differences, read_segments, summary
from phmrun.ledger.wording import row_name
from phmrun.report.document import Listing, Part, Text
from phmrun.sweeps.cell_status import CellStatus
from phmrun.sweeps.plan import Cell

MOST_DIFFERENCES = 12


def environments(statuses: Sequence[CellStatus]) -> list[Part]:
    """A row for each environment with the cells that were made in it; notes on what differs."""
    found = {status.cell.label: read_segments(Run(status.run.path)) for status in statuses if status.run}
    cells: dict[str, list[Cell]] = {}
    for status in statuses:
        for line in dict.fromkeys(summary(entry) for entry in found.get(status.cell.label, ())):
            cells.setdefault(line, []).append(status.cell)
    parts: list[Part] = []
    if cells:
        rows = [(line, "all" if len(cells) == 1 else _by_row(its)) for line, its in cells.items()]
        parts.append(Listing(("environment", "cells"), rows))
    if unknown := [label for label, segments in found.items() if not segments]:
        parts.append(Text(f"Not on record, since an older version made them: {', '.join(unknown)}.", note=True))
    entries = [entry for segments in found.values() for entry in segments]
    changes = dict.fromkeys(change for entry in entries[1:] for change in differences(entries[0], entry))
    if changes:
        told = "; ".join(list(changes)[:MOST_DIFFERENCES])
        parts.append(Text(f"The rows were not all made in the same environment: {told}.", note=True))
    elif len(found) > 1 and not unknown:
        parts.append(Text("All rows were made in the same environment.", note=True))
    for label, segments in found.items():
        for before, after in itertools.pairwise(segments):
            if after.get("first_step") and (changed := differences(before, after)):
                told = "; ".join(changed[:MOST_DIFFERENCES])
                parts.append(
                    Text(f"{label} went on in another one from step {after['first_step']:,}: {told}.", note=True)
                )
    return parts


def _by_row(cells: Sequence[Cell]) -> str:
    """Cells by the names of their rows, each with its seeds: "phm n=2: seeds 1, 2; phm n=4: seed 1"."""
    seeds: dict[str, list[str]] = {}
    for cell in cells:
        labels = cell.labels
        seeds.setdefault(row_name({key: text for key, text in labels.items() if key != "seed"}), []).append(
            labels.get("seed", "")
        )
    return "; ".join(
        f"{row}: {'seed' if len(its) == 1 else 'seeds'} {', '.join(its)}" if any(its) else row
        for row, its in seeds.items()
    )
