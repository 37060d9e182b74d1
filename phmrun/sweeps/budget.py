"""Equal training time: every row trains as many steps as fit into the same seconds.

The seconds per step of a row are measured once, by a run of its first seed that a time limit ends: one row after the
other, without validations. These runs are kept in ``.sweeps/NAME/calibration/``; `results add` writes their seconds per
step beside the sweep's file, so that its cells are known on another machine. The steps that follow are
``training.max_steps`` of the row's runs, which end as done and can be reproduced on any machine.

Imports no torch.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json
from phmrun.errors import PhmrunError
from phmrun.files import write_json
from phmrun.ledger import Run
from phmrun.ledger.directory import directory_of
from phmrun.ledger.listing import recorded_run
from phmrun.ledger.status import State
from phmrun.sweeps.cell import Cell, Make
from phmrun.sweeps.cell_status import CellStatus, look
from phmrun.sweeps.plan import Plan, reseeded
from phmrun.sweeps.workplace import FOLDER as SWEEPS
from phmrun.sweeps.workplace import Workplace

FOLDER = "calibration"  # directory of runs in the sweep's folder
TRAVELS = "sweep.budget"  # seconds per step beside a sweep's file, in a folder of small results
LEAST, MOST = 10.0, 60.0  # seconds of a calibration that is a tenth of the budget
STEPS, EPOCHS = "training.max_steps", "training.max_epochs"
NEVER = 10**9  # steps; more than a calibration can take


def seconds_of_calibration(budget: float) -> int:
    """Return the seconds of a row's calibration: a tenth of the budget.

    It is at least 10 and at most 60 seconds, but no more than the budget, rounded up to whole seconds.
    """
    return max(1, -int(-min(budget, MOST, max(LEAST, budget / 10)) // 1))


def calibration_dir(plan: Plan, runs_dir: Path) -> Path:
    """Return the directory of a sweep's calibration runs."""
    return Workplace(runs_dir, plan.sweep.name).path / FOLDER


def calibrations(plan: Plan, runs_dir: Path, make: Make) -> list[CellStatus]:
    """Return the calibration runs still to be run.

    There is one per row, in the plan's order, unless its seconds per step are on record. Their states are those in the
    calibration folder. Cells that cannot be run have none. The list is empty without a budget.
    """
    budget = plan.sweep.file.budget
    if budget is None:
        return []
    folder, paces = calibration_dir(plan, runs_dir), paces_of(plan, runs_dir, make)
    return [look(cell, folder) for cell in _rows(plan, budget.time, make) if cell.run_id not in paces]


def paces_of(plan: Plan, runs_dir: Path, make: Make) -> dict[str, float]:
    """Return the seconds per step of the rows, by the id of the calibration run.

    They are those of the sweep's calibrations, else those beside its file (``sweep.budget``), else those of the first
    other sweep by name that calibrated the same run. Rows without any are left out. The result is empty without a
    budget.

    Raises:
        PhmrunError: (exit 2) The record beside the sweep's file is damaged.
    """
    budget = plan.sweep.file.budget
    if budget is None:
        return {}
    beside, seconds, paces = _beside(plan), seconds_of_calibration(budget.time), {}
    for cell in _rows(plan, budget.time, make):
        run_id = str(cell.run_id)
        others = sorted((runs_dir / SWEEPS).glob(f"*/{FOLDER}/{run_id}"))
        pace = seconds_per_step(calibration_dir(plan, runs_dir), run_id, seconds) or beside.get(run_id)
        for other in others:
            pace = pace or seconds_per_step(other.parent, run_id, seconds)
        if pace:
            paces[run_id] = pace
    return paces


def write_budget(folder: Path, plan: Plan, runs_dir: Path, make: Make) -> Path:
    """Write the rows' seconds per step to ``sweep.budget`` in a folder.

    Return the path. Keys: time (seconds of training), seconds_per_step (by the id of the calibration run). Without a
    budget, the time is ``None`` and the other empty.
    """
    budget = plan.sweep.file.budget
    write_json(
        folder / TRAVELS,
        {"time": budget.time if budget else None, "seconds_per_step": paces_of(plan, runs_dir, make)},
    )
    return folder / TRAVELS


def within_budget(plan: Plan, runs_dir: Path, make: Make) -> Plan:
    """Return the plan with the steps of each row that fit into its budget.

    They are the budget's seconds / seconds per step, rounded, at least 1. They become ``training.max_steps``, also in
    ``at``; ``training.max_epochs`` becomes ``None``, and the cells name their budget. Cells of a row without a
    calibration are marked as searching. Without a budget the plan is unchanged, as are cells that cannot run.
    """
    budget = plan.sweep.file.budget
    if budget is None:
        return plan
    paces, seconds = paces_of(plan, runs_dir, make), seconds_of_calibration(budget.time)
    cells = []
    for cell in plan.cells:
        if cell.run_id is None:
            cells.append(cell)
            continue
        pace = paces.get(str(_calibration(plan, cell, seconds, make).run_id))
        if pace is None:
            cells.append(replace(cell, searching=True))
            continue
        steps = {STEPS: max(1, round(budget.time / pace))}
        timed = make(cell, {**steps, EPOCHS: None})
        cells.append(replace(timed, at={**cell.at, **steps}, budget=f"{budget.time:g} s of training"))
    return replace(plan, cells=cells)


def seconds_per_step(folder: Path, run_id: str | None, seconds: int) -> float | None:
    """Return the seconds per optimizer step of a calibration run.

    They are measured between the first and the last row with a time in its history, or over all steps if there are
    fewer than two such rows. The result is ``None`` if the run is missing, has failed, has no step, or has trained less
    than ``seconds``.
    """
    run = recorded_run(directory_of(folder, run_id)) if run_id else None
    status = run.status if run else None
    if run is None or status is None or status.seconds < seconds or not status.step or status.state is State.FAILED:
        return None
    rows = [(row["step"], row["time"]) for row in Run(run.path).history.rows() if "time" in row]
    (first, began), (last, ended) = (rows[0], rows[-1]) if len(rows) > 1 else ((0, 0.0), (status.step, status.seconds))
    return float(ended - began) / (last - first)


def _rows(plan: Plan, time: float, make: Make) -> list[Cell]:
    """Return the calibration run of each row of a plan, in its order.

    Rows without a cell that can be run are left out. ``time`` is the budget in seconds.
    """
    rows = {cell.row: cell for cell in plan.cells if cell.run_id}
    return [_calibration(plan, cell, seconds_of_calibration(time), make) for cell in rows.values()]


def _beside(plan: Plan) -> dict[str, float]:
    """Return the seconds per step on record beside the sweep's file.

    They are by the id of the calibration run; empty if there are none.

    Raises:
        PhmrunError: (exit 2) The record is damaged.
    """
    path = Path(plan.sweep.where).parent / TRAVELS
    try:
        paces = parse_json(path.read_text(encoding="utf-8"))["seconds_per_step"]
        return {str(run_id): float(pace) for run_id, pace in paces.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise PhmrunError(f"the budget of the sweep cannot be read: {error}", where=str(path)) from error


def _calibration(plan: Plan, cell: Cell, seconds: int, make: Make) -> Cell:
    """Return the calibration run of a cell's row: the sweep's first seed, stopped after ``seconds``.

    It has no validations, no patience, and no other limit. Its ``at`` is that of the cell with this seed.
    """
    values: Mapping[str, Any] = {
        STEPS: NEVER,
        EPOCHS: None,
        "training.max_time": f"{seconds // 3600:02}:{seconds % 3600 // 60:02}:{seconds % 60:02}",
        "training.validate_every": NEVER,
        "training.patience": 0,
    }
    first = reseeded(cell, plan.sweep.seeds()[0])
    return replace(make(first, values), at=first.at)
