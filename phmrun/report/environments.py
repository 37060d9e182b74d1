"""On what the runs of a sweep were made, and where that differs between them or within one."""

import itertools
from collections.abc import Sequence

from phmrun.ledger import Run
from phmrun.ledger.environment import differences, read_segments, summary
from phmrun.report.document import Listing, Part, Text
from phmrun.sweeps.cell_status import CellStatus

MOST_DIFFERENCES = 12


def environments(statuses: Sequence[CellStatus]) -> list[Part]:
    """A row for each environment with the cells that were made in it; notes on what differs."""
    found = {status.cell.label: read_segments(Run(status.run.path)) for status in statuses if status.run}
    cells: dict[str, list[str]] = {}
    for label, segments in found.items():
        for line in dict.fromkeys(summary(entry) for entry in segments):
            cells.setdefault(line, []).append(label)
    parts: list[Part] = []
    if cells:
        rows = [(line, "all" if len(cells) == 1 else ", ".join(labels)) for line, labels in cells.items()]
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
