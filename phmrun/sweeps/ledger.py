"""What the ledger knows of a sweep whose data are not here: its runs are found by their settings."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phmrun.config.layering import OptionsOf
from phmrun.errors import PhmrunError
from phmrun.ledger.listing import RunSummary, list_runs
from phmrun.papers.entries import entry_of_run, settings_of
from phmrun.sweeps.cell_status import CellState, CellStatus, look, survey
from phmrun.sweeps.plan import Plan


def survey_without_data(plan: Plan, runs_dir: Path, options_of: OptionsOf) -> list[CellStatus]:
    """What has become of every cell; where data are missing, by the runs that have the cell's settings and seed.

    Without its data the name of a run cannot be told, which holds their checksums.

    Args:
        plan: The sweep's plan.
        runs_dir: The directory of all runs.
        options_of: The options of a structure.

    Raises:
        PhmrunError: Two runs have the settings of a cell, on data that differ.
    """
    stands = survey(plan, runs_dir)
    if not any(stand.standing is CellState.BLOCKED for stand in stands):
        return stands
    by_settings: dict[str, list[RunSummary]] = {}
    for run in list_runs(runs_dir):
        entry = entry_of_run(run, options_of)
        by_settings.setdefault(_key(entry.settings, entry.seed), []).append(run)
    return [_found(stand, by_settings, runs_dir) if stand.standing is CellState.BLOCKED else stand for stand in stands]


def _found(stand: CellStatus, by_settings: Mapping[str, list[RunSummary]], runs_dir: Path) -> CellStatus:
    cell = stand.cell
    if cell.config is None:
        return stand
    runs = by_settings.get(_key(settings_of(cell.config), cell.config.seed), [])
    if len(runs) > 1:
        raise PhmrunError(
            f"{len(runs)} runs have the settings of {cell.label}, on other data each: {', '.join(r.id for r in runs)}",
            where=str(runs_dir),
            hint="The data of the sweep are not here to tell which is meant. Name the runs instead of the file.",
        )
    if not runs:
        return stand
    seen = look(replace(cell, run_id=runs[0].path.name), runs_dir)
    return replace(seen, cell=replace(seen.cell, fault=None))


def _key(settings: Mapping[str, Any], seed: Any) -> str:
    return json.dumps([dict(settings), seed], sort_keys=True, default=str)
