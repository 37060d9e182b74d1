"""What the ledger knows of data that are not here: with their checksums a plan names the runs that learnt from them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path

from phmrun.config import Experiment
from phmrun.config.layering import OptionsOf
from phmrun.errors import PhmrunError
from phmrun.ledger.listing import CONFIG, RunSummary, list_runs
from phmrun.papers.entries import DATA, entry_of_run, settings_of

Recorded = Callable[[Experiment], Mapping[str, str] | None]
"""The checksums of an experiment's data, by name, as runs have them on record; ``None``: no run learnt from them."""


def recorded_data(runs_dir: Path, options_of: OptionsOf) -> Recorded:
    """A look-up in the runs of a directory, which are read when it is first asked.

    It raises a `PhmrunError` where runs with the same settings of their data have other checksums on record.

    Args:
        runs_dir: The directory of all runs.
        options_of: The options of a structure.
    """
    by_settings: dict[str, dict[str, str]] = {}
    read: list[bool] = []

    def look(config: Experiment) -> Mapping[str, str] | None:
        if not read:
            read.append(True)
            for run in list_runs(runs_dir):
                settings, marks = _learnt_from(run, options_of)
                if marks:
                    by_settings.setdefault(settings, {})[marks] = run.id
        found = by_settings.get(_key(settings_of(config)), {})
        if len(found) > 1:
            raise PhmrunError(
                f"runs on data of these settings learnt from other files each: {', '.join(found.values())}",
                where=str(runs_dir),
                hint="The data of the sweep are not here to tell which is meant. Name the runs instead of the file.",
            )
        return json.loads(next(iter(found))) if found else None

    return look


def _learnt_from(run: RunSummary, options_of: OptionsOf) -> tuple[str, str]:
    """What data a run learnt from, by its settings and by its checksums; those are read once while its config stands.

    A run without checksums is read again, as it may only have begun.
    """
    config = run.path / CONFIG
    key = (config, config.stat().st_mtime_ns if config.is_file() else 0, options_of)
    if key in _READ:
        return _READ[key]
    entry = entry_of_run(run, options_of)
    marks = {name: mark for name, mark in entry.marks.items() if not name.startswith("plugin ")}
    if not marks:
        return _key(entry.settings), ""
    _READ[key] = _key(entry.settings), json.dumps(marks, sort_keys=True)
    return _READ[key]


_READ: dict[tuple[Path, int, OptionsOf], tuple[str, str]] = {}


def _key(settings: Mapping[str, object]) -> str:
    """What data an experiment learns from: its task and the settings of its data."""
    chosen = {key: value for key, value in settings.items() if key == "task" or key.partition(".")[0] == DATA}
    return json.dumps(chosen, sort_keys=True, default=str)
