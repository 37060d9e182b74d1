"""Equal tuning effort: as many trials for each row, compared on validation.

Trials are normal runs of the first seed; no other state is kept. If the best value of any row lies at an edge of its
space, the spaces of all rows are extended, at most twice. After that, the row is marked.

With ``tune: true`` the space is five learning rates around the row's own, half a power of ten apart. Then each row
tries two more, half a step on either side of its best.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import isfinite, sqrt
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from phmrun.config import leaves
from phmrun.errors import ExitCode, PhmrunError
from phmrun.grouping import grouped_by
from phmrun.ledger.history import BEST
from phmrun.metric import metric_of, require_direction
from phmrun.sweeps.cell import Cell, Make
from phmrun.sweeps.cell_status import CellState, CellStatus, look
from phmrun.sweeps.file import RATE
from phmrun.sweeps.plan import Plan, reseeded
from phmrun.sweeps.selection import SEED

EXTENSIONS = 2  # maximum number of extensions of a space
OVER = (CellState.DONE, CellState.FAILED, CellState.INVALID)  # states of trials that have ended
STEP = sqrt(10)  # ratio of neighboring learning rates

Space = Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Tuned:
    """Row with its trials.

    Attributes:
        cells: Its cells, one per seed, without tuned values.
        pilot: Cell whose seed chooses: that of the sweep's first seed, even if it is not selected.
        space: Values of the grid, by dotted key; further trials lie between or next to them.
        trials: Tried values, each with the state of its cell of the first seed.
        values: Values of the best trial; ``None`` until all trials have ended, or if none is done with a score.
        at_edge: Keys of numbers whose best value is the least or greatest of the space, or lies outside it.
        replicates: One row per further seed, which chooses among three values itself; empty before the pilot has ended.
    """

    cells: tuple[Cell, ...]
    pilot: Cell
    space: Space
    trials: tuple[tuple[Mapping[str, Any], CellStatus], ...] = ()
    values: Mapping[str, Any] | None = None
    at_edge: tuple[str, ...] = ()
    replicates: tuple["Tuned", ...] = ()

    @property
    def all_trials(self) -> list[CellStatus]:
        """Trials of the row, then of its replicates, of any state."""
        return [status for row in (self, *self.replicates) for _, status in row.trials]

    @property
    def is_searching(self) -> bool:
        """True if one of its trials has not ended."""
        return any(status.state not in OVER for _, status in self.trials)

    @property
    def failed(self) -> bool:
        """True if all trials have ended and none is done with a score."""
        return self.values is None and bool(self.trials) and not self.is_searching

    @property
    def lower_is_better(self) -> bool:
        """True if a lower validation score is better.

        It is that of the first cell's ``training.monitor``; False without a configuration.
        """
        config = self.cells[0].config
        return config is not None and metric_of(config.training.monitor).lower_is_better


def settled(plan: Plan, runs_dir: Path, make: Make) -> list[Tuned]:
    """Return the runnable rows of a plan, with their trials so far.

    A row has cells that differ in the seed only; that of the sweep's first seed is tried, even if a selection leaves it
    out, so that selections of one sweep share their trials. Cells without a run id are left out. Once
    the trials of every row have ended, spaces are extended at edges, at most twice. With ``tune: true``, two rates
    beside the best are tried then. Trials that have not ended are the ones to run next. With replicates, further
    seeds have trials of their own after that. A row whose trials have all failed gets no further ones of these two
    kinds.

    Raises:
        PhmrunError: (exit 2) The monitored score's direction is not known. With ``tune: true``, a row has no learning
            rate. With replicates, see :func:`grid_of_three`.
    """
    space = plan.sweep.file.space
    by_row = grouped_by((cell for cell in plan.cells if cell.run_id is not None), attrgetter("row"))
    for cells in by_row.values():
        if cells[0].config is not None:
            require_direction(cells[0].config.training.monitor, "training.monitor")
    rows = [_row(cells, plan.sweep.seeds()[0], space) for cells in by_row.values()]
    rows = [_tried(row, runs_dir, make) for row in rows]
    for _ in range(EXTENSIONS):
        wider = None if any(row.is_searching for row in rows) else extended(rows)
        if wider is None:
            break
        rows = [_tried(replace(row, space=space), runs_dir, make) for row, space in zip(rows, wider, strict=True)]
    if space is True and not any(row.is_searching for row in rows):
        rows = [row if row.failed else _tried(row, runs_dir, make, _beside(row)) for row in rows]
    if plan.sweep.file.replicates and not any(row.is_searching for row in rows):
        rows = [row if row.failed else replace(row, replicates=tuple(_replicates(row, runs_dir, make))) for row in rows]
    return rows


def grid_of_three(row: Tuned) -> tuple[str, list[float]]:
    """Return the key and three ascending values for a row's replicates.

    The values are the pilot's best and its neighbors among the values tried. If the best lies at an edge, a value
    beyond it is added in geometric progression, rounded to three digits, for this row only.

    Raises:
        PhmrunError: (exit 2) The space has fewer than two values or one that is no positive number, or the pilot has no
            best one.
        ValueError: The space has not exactly one key.
    """
    (key,) = row.space
    if row.values is None or not _numbers(row.space[key]):
        raise PhmrunError("replicates choose among positive numbers", where=f"tune.{key}")
    tried, best = sorted({float(values[key]) for values, _ in row.trials}), float(row.values[key])
    place = tried.index(best)
    above = tried[place + 1] if place + 1 < len(tried) else _rounded(best * best / tried[place - 1])
    below = tried[place - 1] if place else _rounded(best * best / above)
    return key, [below, best, above]


def _replicates(row: Tuned, runs_dir: Path, make: Make) -> Iterator[Tuned]:
    """Yield the row of each further seed, which has one cell.

    Its trials have the three values of :func:`grid_of_three`, which also has the errors.
    """
    key, grid = grid_of_three(row)
    for cell in row.cells:
        if cell.run_id == row.pilot.run_id:
            continue
        yield _tried(Tuned((cell,), cell, {key: grid}), runs_dir, make)


def extended(rows: Sequence[Tuned]) -> list[Space] | None:
    """Return the rows' spaces, extended at edges with a best value.

    An edge is the least or greatest number of a row's space. If the best value of any row is there, the spaces of all
    rows get one value beyond their own edge at that end. It continues the ratio of the two values next to it, rounded
    to three digits. Numbers are sorted, ascending. ``None`` if no row has its best value at an edge.
    """
    spaces = [
        {key: sorted(values) if _numbers(values) else values for key, values in row.space.items()} for row in rows
    ]
    above = {key for row in rows for key in row.at_edge if row.values and row.values[key] == max(row.space[key])}
    below = {key for row in rows for key in row.at_edge if row.values and row.values[key] == min(row.space[key])}
    for space in spaces:
        for key in above:
            space[key] = [*space[key], _rounded(space[key][-1] * space[key][-1] / space[key][-2])]
        for key in below:
            space[key] = [_rounded(space[key][0] * space[key][0] / space[key][1]), *space[key]]
    return [*spaces] if above | below else None


def with_choices(plan: Plan, rows: Sequence[Tuned], make: Make) -> Plan:
    """Return the plan with each row's best values, and its trials.

    Cells of a row without a choice are marked as searching if trials are left, as are those of replicates before each
    row's pilot has ended. If all trials have failed, they get no run id, and
    the fault of an invalid trial, else one with exit code 5. Without replicates, cells gain the values in ``at``, and a
    row's pilot is marked as having chosen the settings. With them, cells get the choice of their seed, and the pilot's
    cell is left out. All get the row's ``at_edge``.
    """
    of_cell = {cell.run_id: row for row in rows for cell in row.cells}
    cells: list[Cell] = []
    for cell in plan.cells:
        row = of_cell.get(cell.run_id)
        if row is None:
            cells.append(cell)
        elif row.failed:
            invalid = next((status.cell.fault for _, status in row.trials if status.cell.fault), None)
            score = f"val/{row.pilot.config.training.monitor}" if row.pilot.config else "a score"
            what = f"no trial of {row.pilot.label} is done with {score}, by which training.monitor chooses"
            fault = invalid or PhmrunError(what, code=ExitCode.SWEEP)
            cells.append(replace(cell, run_id=None, fault=fault))
        elif row.replicates:
            cells += _replicate(row, cell, make)
        else:
            ids = {other.run_id for other in row.cells}  # a replicate waits for the pilots of all rows
            waits = row.values is None or (plan.sweep.file.replicates and ids != {row.pilot.run_id})
            chosen = replace(cell, searching=True) if waits else make(cell, row.values or {})
            chose = cell.run_id == row.pilot.run_id
            cells.append(replace(chosen, at_edge=row.at_edge, chose_settings=chose))
    return replace(plan, cells=cells, trials=[status.cell for row in rows for status in row.all_trials])


def _replicate(row: Tuned, cell: Cell, make: Make) -> Iterator[Cell]:
    """Yield the cell of a replicate with its seed's choice.

    Without a choice, it has the row's best values. It is marked as searching until its trials have ended. Its labels
    stay those of the row. The pilot's cell yields nothing.
    """
    for chosen in row.replicates:
        if chosen.cells[0].run_id == cell.run_id:
            (key,) = chosen.space
            values = chosen.values if chosen.values is not None else row.values
            # The labels stay those of the row, whatever value the seed chose.
            chosen_cell = replace(make(cell, values or {}), at=cell.at, at_edge=row.at_edge)
            yield replace(chosen_cell, own_choice=(key,), choices=len(chosen.space[key]), searching=chosen.is_searching)


def _row(cells: Sequence[Cell], first: int, space: Literal[True] | Space) -> Tuned:
    """Return a row without trials.

    Its pilot has the seed ``first``; its space is that of the sweep, or rates around its own.
    """
    pilot = cells[0] if cells[0].at[SEED] == first else reseeded(cells[0], first)
    return Tuned(tuple(cells), pilot, _around(pilot) if space is True else space)


def _around(cell: Cell) -> Space:
    """Return five learning rates around a cell's own, as a space.

    The space is ``{"training.optimizer.lr": [...]}``. The rates are half a power of ten apart, rounded to three digits.

    Raises:
        PhmrunError: (exit 2) The cell has no learning rate.
    """
    rate = dict(leaves(cell.config)).get(RATE) if cell.config else None
    if rate is None:
        raise PhmrunError(f"{cell.label} has no learning rate to tune around", where=RATE)
    return {RATE: [_rounded(rate * STEP**power) for power in (-2, -1, 0, 1, 2)]}


def _beside(row: Tuned) -> list[Mapping[str, Any]]:
    """Return the learning rates half a step below and above a row's best.

    A step is half a power of ten; rates have three digits. Each is a trial's values, ``{"training.optimizer.lr": …}``.
    """
    best = (row.values or {})[RATE]
    return [{RATE: _rounded(best * STEP**power)} for power in (-0.5, 0.5)]


def _tried(row: Tuned, runs_dir: Path, make: Make, further: Sequence[Mapping[str, Any]] = ()) -> Tuned:
    """Return a row with its trials and best values.

    Trials are all combinations of its space, then ``further``. Best values are those of the best validation score, the
    first if several have it; only done trials with a finite score count. They are ``None`` until all trials are done,
    failed or invalid, or if none counts. ``at_edge`` names the keys of numbers whose best value is not strictly between
    the least and greatest of the space.
    """
    combinations = [dict(zip(row.space, values, strict=True)) for values in product(*row.space.values())]
    trials = [(values, look(make(row.pilot, values), runs_dir)) for values in [*combinations, *further]]
    row = replace(row, trials=tuple(trials), values=None, at_edge=())
    ended = [(status.run, values) for values, status in trials if status.state is CellState.DONE]
    results = [(run.score(BEST) if run else None, values) for run, values in ended]
    scored = [(score, values) for score, values in results if score is not None and isfinite(score)]
    if row.is_searching or not scored:
        return row
    pick = min if row.lower_is_better else max
    _, best = pick(scored, key=lambda pair: pair[0])
    edges = [key for key, values in row.space.items() if _numbers(values)]
    valid = [values for values, status in trials if status.state is not CellState.INVALID]
    edges = [key for key in edges if best[key] in (extreme(values[key] for values in valid) for extreme in (min, max))]
    return replace(row, values=best, at_edge=tuple(edges))


def _numbers(values: Sequence[Any]) -> bool:
    """True if a space can be extended: at least two values, all positive numbers."""
    return len(values) > 1 and all(isinstance(value, int | float) and value > 0 for value in values)


def _rounded(value: float) -> float:
    """Return a value with three significant digits."""
    return float(f"{value:.3g}")
