"""The same effort for every row: each gets the same trials over the same space, chosen on validation, never on test.

Trials are runs of the first seed, like any other; nothing is remembered beside their directories. Where the best value
of a row lies at an edge of the space, the space is extended for all rows, twice at most; then the row is marked.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from phmrun.metrics.kinds import kind_of
from phmrun.sweeps.cell_status import CellState, CellStatus, look
from phmrun.sweeps.plan import SEED, Cell, Plan

EXTENSIONS = 2
"""How often a space is extended at most."""
BEST = "validation/best"

Space = Mapping[str, Sequence[Any]]
Make = Callable[[Cell, Mapping[str, Any]], Cell]
"""From a cell and values by dotted key to a cell."""


@dataclass(frozen=True)
class Tuned:
    """A row and its trials.

    Attributes:
        cells: Its cells, one for each seed, without the values that are tried.
        trials: Cells of the first seed, as they stand, with the values tried.
        values: Those of the best trial; ``None`` until every trial is over, or where none has a score.
        at_edge: The keys whose best value is the least or the greatest that was tried.
    """

    cells: tuple[Cell, ...]
    trials: tuple[tuple[Mapping[str, Any], CellStatus], ...]
    values: Mapping[str, Any] | None
    at_edge: tuple[str, ...]

    @property
    def label(self) -> str:
        """What tells it from the other rows."""
        return " · ".join(text for key, text in self.cells[0].labels.items() if key != SEED)

    @property
    def scores(self) -> list[float]:
        """The best validations of its trials."""
        found = [status.run.score(BEST) for _, status in self.trials if status.run]
        return [score for score in found if score is not None]

    @property
    def lower_is_better(self) -> bool:
        """The direction of the validation score."""
        config = self.cells[0].config
        return config is not None and kind_of(config.training.monitor).lower_is_better


def tune(plan: Plan, runs_dir: Path, space: Space, make: Make) -> list[Tuned]:
    """Every row that can be run, and what its trials have come to."""
    rows: dict[tuple[str, ...], list[Cell]] = {}
    for cell in plan.cells:
        if cell.run_id is not None:
            rows.setdefault(tuple(text for key, text in cell.labels.items() if key != SEED), []).append(cell)
    return [_tuned(tuple(cells), runs_dir, space, make) for cells in rows.values()]


def extended(space: Space, rows: Sequence[Tuned]) -> Space | None:
    """The space with a further value at every edge at which a row has its best; ``None``: there is no such."""
    found = {key: list(values) for key, values in space.items()}
    changed = False
    for key in {key for row in rows for key in row.at_edge}:
        values = sorted(space[key])
        best = {row.values[key] for row in rows if row.values is not None and key in row.at_edge}
        if values[-1] in best:
            found[key].append(_rounded(values[-1] * values[-1] / values[-2]))
            changed = True
        if values[0] in best:
            found[key].insert(0, _rounded(values[0] * values[0] / values[1]))
            changed = True
    return found if changed else None


def with_choices(plan: Plan, rows: Sequence[Tuned], make: Make) -> Plan:
    """The plan whose rows have the values of their best trials; rows without stay as they are."""
    chosen = {cell.run_id: row.values for row in rows if row.values is not None for cell in row.cells}
    cells = [make(cell, chosen[cell.run_id]) if cell.run_id in chosen else cell for cell in plan.cells]
    return replace(plan, cells=cells)


def settled(plan: Plan, runs_dir: Path, space: Space, make: Make) -> tuple[Space, list[Tuned]]:
    """The space as far as it was extended, and the rows: what is left to try is in their trials."""
    rows = tune(plan, runs_dir, space, make)
    for _ in range(EXTENSIONS):
        if any(row.values is None for row in rows):
            break
        wider = extended(space, rows)
        if wider is None:
            break
        space = wider
        rows = tune(plan, runs_dir, space, make)
    return space, rows


def _tuned(cells: tuple[Cell, ...], runs_dir: Path, space: Space, make: Make) -> Tuned:
    trials = []
    for combination in product(*space.values()):
        values = dict(zip(space, combination, strict=True))
        trials.append((values, look(make(cells[0], values), runs_dir)))
    row = Tuned(cells, tuple(trials), None, ())
    over = (CellState.DONE, CellState.FAILED, CellState.INVALID)
    scored = [(status.run.score(BEST), values) for values, status in trials if status.run and status.run.score(BEST)]
    if any(status.state not in over for _, status in trials) or not scored:
        return row
    pick = min if row.lower_is_better else max
    _, best = pick(scored, key=lambda one: one[0] or 0.0)
    edges = tuple(key for key in space if _numbers(space[key]) and best[key] in (min(space[key]), max(space[key])))
    return replace(row, values=best, at_edge=edges)


def _numbers(values: Sequence[Any]) -> bool:
    """Whether a space can be extended: at least two positive numbers."""
    return len(values) > 1 and all(isinstance(value, int | float) and value > 0 for value in values)


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")
