"""Plans of sweep files, with tuned values and recorded seeds.

Imports torch to count networks; a plan of what is on record counts none.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from phmrun.config import Experiment, Task, semantic_values
from phmrun.config.identity import run_id
from phmrun.config.options import options_of
from phmrun.documents import flat
from phmrun.engine.code import code_marks
from phmrun.errors import ExitCode, PhmrunError
from phmrun.grouping import grouped_by
from phmrun.ledger.directory import directory_of
from phmrun.ledger.listing import list_runs, recorded_run
from phmrun.ledger.run import Run
from phmrun.ledger.sameness import runs_beside
from phmrun.progress import waiting
from phmrun.registry import TASKS, load_plugins, plugin_marks
from phmrun.sweeps.cell import Cell, Inspect, Inspected, Make
from phmrun.sweeps.cell_status import CellState, CellStatus, survey, unblocked
from phmrun.sweeps.file import Sweep, load_sweep
from phmrun.sweeps.plan import Plan, plan, reseeded, varied
from phmrun.sweeps.selection import SEED, fits, read_selection
from phmrun.sweeps.tuning import settled, with_choices


def planned(
    file: str,
    only: Sequence[str] | None = None,
    seeds: int | None = None,
    *,
    ledger: Path | None = None,
) -> Plan:
    """Return the plan of a sweep's file.

    Networks are counted and data inspected, except those on record in ``ledger``; their errors become the cells'
    faults. Nothing is tuned yet, see :func:`chosen`.

    Args:
        file: Path of the sweep's file.
        only: ``key=value`` of the cells to keep.
        seeds: Number of seeds; the file's if not given.
        ledger: Directory of runs: has checksums of missing data, and runs of earlier versions that replace cells.

    Raises:
        PhmrunError: (exit 2) The file or a selection is invalid, or no cell is left.
    """
    sweep, wanted = load_sweep(file), read_selection(only or [])
    with waiting("preparing"):
        inspect = inspector_of(sweep, ledger)
    current = plan(sweep, inspect, options_of, seeds=seeds, only=wanted)
    return replace(current, cells=[recorded_cell(cell, ledger) for cell in current.cells], ledger=ledger)


def recorded_cell(cell: Cell, ledger: Path | None) -> Cell:
    """Return the cell, or a copy with the run id of an earlier version.

    The copy is returned if the cell has no run in ``ledger``, but the same settings with other versions of layers or
    mathematics have; of several runs, the one updated last. ``versions`` then names the changed versions.
    """
    if ledger is None or cell.config is None or cell.run_id is None or _has_run(cell, ledger):
        return cell
    for run, changes in runs_beside(ledger, cell.run_id, cell.config, cell.marks):
        if changes.names == changes.versions:
            cell = replace(cell, run_id=run.id, versions=changes.versions)
    return cell


def inspector_of(sweep: Sweep, ledger: Path | None = None) -> Inspect:
    """Load a sweep's plug-ins; return an inspector.

    The inspector describes an experiment: by its task's runner if there is one, else by its network, for which torch is
    imported at the first use. Checksums on record in ``ledger`` of data that are unchanged or missing here are enough,
    and the network is then not counted.

    Raises:
        PhmrunError: (exit 2) A plug-in cannot be imported.
    """
    plugins = load_plugins([Path(name) for name in sweep.file.plugins])
    recorded = RecordedData(ledger) if ledger else None

    @cache
    def networks() -> Inspect:
        """Return the inspector of experiments that train a network; imports torch."""
        from phmrun.sweeps.inspection import inspector

        return inspector(plugins)

    def inspect(config: Experiment) -> Inspected:
        """Inspect an experiment by its task's runner, else by its network.

        The runner gives its own checksums, or without its files those on record, and those of the plug-ins.
        """
        task: Task = TASKS.get(config.task)
        if task.runner:
            try:
                marks = task.load("runner").fingerprints(config)
            except PhmrunError as error:
                if not recorded or error.code != ExitCode.DATA or not (marks := recorded.unchanged(config)):
                    raise
            return Inspected(None, {**marks, **plugin_marks(plugins)})
        if recorded and (marks := recorded.unchanged(config)):
            return Inspected(None, {**marks, **plugin_marks(plugins), **code_marks(config)})
        try:
            return networks()(config)
        except PhmrunError as error:
            if recorded and error.code == ExitCode.DATA:
                recorded.require_unambiguous(config)
            raise

    return inspect


class RecordedData:
    """Checksums of data that the runs of a directory have on record, by data settings; read at the first use."""

    def __init__(self, runs_dir: Path) -> None:
        self._runs_dir = runs_dir
        self._of_name: dict[str, dict[str, dict[str, list[Run]]]] = {}

    def _runs(self, config: Experiment) -> dict[str, Run]:
        """Return the runs with an experiment's data settings and names of files, by checksums as JSON.

        Of runs with the same checksums, the last by name counts. Runs of another task and data by their ids are not
        read, and those without checksums left out.
        """
        name = f"{'-'.join(run_id(config, fingerprints={}).split('-')[:2])}-"
        if name not in self._of_name:
            runs = self._of_name[name] = {}
            for run in list_runs(self._runs_dir):
                if run.id.startswith(name) and (identity := run.identity()):
                    marks = identity["fingerprints"].items()
                    sums = {k: v for k, v in marks if not k.startswith(("plugin ", "package "))}
                    if sums:
                        of_data = runs.setdefault(_key(identity["task"], identity["values"]), {})
                        of_data.setdefault(json.dumps(sums, sort_keys=True), []).append(run)
        of_data = self._of_name[name].get(_key(config.task, semantic_values(config, former_names=True)), {})
        named = flat(config.model_dump(mode="json", include={"data": True, "model": {"path"}}))
        last = {sums: next((r for r in reversed(runs) if _has_files(r, named)), None) for sums, runs in of_data.items()}
        return {sums: run for sums, run in last.items() if run}

    def require_unambiguous(self, config: Experiment) -> None:
        """Check that runs with these data settings have the same checksums.

        Raises:
            PhmrunError: (exit 2) They differ.
        """
        runs = self._runs(config)
        if len(runs) > 1:
            names = ", ".join(run.id for run in runs.values())
            what = f"runs with these data settings were trained on different files: {names}"
            hint = "The sweep's data are not on this machine to tell which are meant. Name the runs instead."
            raise PhmrunError(what, where=self._runs_dir, hint=hint)

    def unchanged(self, config: Experiment) -> Mapping[str, str] | None:
        """Return the checksums on record if they are unambiguous, and the files that exist here still have them."""
        runs = self._runs(config)
        if len(runs) != 1 or any(data.changed for run in runs.values() if (data := run.data())):
            return None
        return dict(json.loads(next(iter(runs))))


def _has_files(run: Run, named: Mapping[str, Any]) -> bool:
    """True if a run has these names of files; folders that one of both lacks do not count, as of missing files."""
    pairs = ((f"/{name}", f"/{run.settings.get(key, name)}") for key, name in named.items())
    return all(name.endswith(recorded) or recorded.endswith(name) for name, recorded in pairs)


def _key(task: str, values: Mapping[str, object]) -> str:
    """Return the task and the data settings as JSON, with sorted keys."""
    return json.dumps([task, {key: value for key, value in values.items() if key.startswith("data.")}], sort_keys=True)


def maker(made: Plan) -> Make:
    """Return a function that builds trial cells.

    It builds a cell from another and values by dotted key; the same cell object and values give one cell. The plan's
    ledger is used as by :func:`planned`.
    """
    inspect = made.inspect or inspector_of(made.sweep, made.ledger)
    built: dict[tuple[int, str], tuple[Cell, Cell]] = {}  # by id; the first cell is kept, so that its id stays its own

    def make(cell: Cell, values: Mapping[str, Any]) -> Cell:
        """Build a cell from another and values by dotted key."""
        key = id(cell), json.dumps(values, default=str)
        if key not in built:
            built[key] = cell, varied(cell, values, inspect, options_of)
        return recorded_cell(built[key][1], made.ledger)

    return make


def chosen(made: Plan, runs_dir: Path) -> Plan:
    """Return the plan with the best trials' values; unchanged if the sweep tunes nothing."""
    if not made.sweep.file.tune:
        return made
    make = maker(made)
    return with_choices(made, settled(made, runs_dir, make), make)


def surveyed(file: str, only: list[str] | None, seeds: int | None, runs_dir: Path) -> tuple[Plan, list[CellStatus]]:
    """Return a sweep's plan, with tuned values chosen so far, and its cells' states.

    Cells whose data are not on this machine have the state on record, if there is a run: :func:`unblocked`.

    Raises:
        PhmrunError: (exit 2) As :func:`planned`.
    """
    current = chosen(planned(file, only, seeds), runs_dir)
    statuses = survey(current, runs_dir)
    if any(status.state is CellState.BLOCKED for status in statuses):
        recorded = survey(chosen(planned(file, only, seeds, ledger=runs_dir), runs_dir), runs_dir)
        statuses = unblocked(statuses, recorded)
    return current, statuses


def recorded_plan(file: str, runs_dir: Path, only: Sequence[str] | None = None, seeds: int | None = None) -> Plan:
    """Return the plan with tuned values from the runs alone.

    Data may be missing. Without ``seeds``, every row gets each further seed that any row has a run of, ascending after
    its own, except in a sweep with replicates. A selection of seeds in ``only`` limits them.

    Raises:
        PhmrunError: (exit 2) As :func:`planned`.
    """
    current = chosen(planned(file, only, seeds, ledger=runs_dir), runs_dir)
    if seeds is not None or current.sweep.file.replicates:
        return current
    rows = grouped_by(current.cells, attrgetter("row"))
    wanted = {key: values for key, values in read_selection(only or []).items() if key == SEED}
    texts = {run.id.split("-")[-2] for run in list_runs(runs_dir) if run.id.count("-")}  # TASK-DATA-NETWORK-SEED-DIGITS
    recorded = {int(text) for text in texts if text.isdecimal()} - {cell.at[SEED] for cell in current.cells}
    further = [
        seed
        for seed in sorted(recorded)
        if fits({SEED: seed}, None, wanted)
        and any(_has_run(_with_seed(cell, seed, runs_dir), runs_dir) for cell, *_ in rows.values())
    ]
    cells = [
        cell for row in rows.values() for cell in [*row, *(_with_seed(row[0], seed, runs_dir) for seed in further)]
    ]
    return replace(current, cells=cells) if further else current


def _with_seed(cell: Cell, seed: int, runs_dir: Path) -> Cell:
    """Return a cell with another seed; a run of an earlier version may replace it."""
    return recorded_cell(reseeded(cell, seed), runs_dir)


def _has_run(cell: Cell, runs_dir: Path) -> bool:
    """True if the cell's run exists."""
    return cell.run_id is not None and recorded_run(directory_of(runs_dir, cell.run_id)) is not None
