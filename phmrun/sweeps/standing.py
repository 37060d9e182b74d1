"""How far the cells of a sweep are, read from their run directories. Imports no torch."""

import os
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from phmrun.ledger.listing import LOCK, RunSummary, summarise
from phmrun.ledger.lock import Holder, living_holder
from phmrun.ledger.run import directory_of
from phmrun.ledger.status import State
from phmrun.sweeps.plan import Cell, Plan

CLAIM = ".claim"
"""A planner's lock on a run directory: it has started that run, or is about to."""


class Standing(StrEnum):
    """What has become of a cell."""

    DONE = "done"
    RUNNING = "running"
    """A process works at it, or is about to."""
    INTERRUPTED = "interrupted"
    """It has begun, and goes on where it stopped."""
    QUEUED = "queued"
    """It has a run directory, and has not begun."""
    MISSING = "missing"
    """It has no run directory."""
    FAILED = "failed"
    BLOCKED = "blocked"
    """Its data are not on this machine."""
    INVALID = "invalid"
    """Its settings do not go together."""


LEFT = (Standing.MISSING, Standing.QUEUED, Standing.RUNNING, Standing.INTERRUPTED)
"""Where work is still to be done."""
NOT_BEGUN = (Standing.MISSING, Standing.QUEUED)

_STANDINGS = {
    State.QUEUED: Standing.QUEUED,
    State.RUNNING: Standing.RUNNING,
    State.INTERRUPTED: Standing.INTERRUPTED,
    State.DONE: Standing.DONE,
    State.FAILED: Standing.FAILED,
}


@dataclass(frozen=True)
class Stand:
    """A cell and what its run directory says.

    Attributes:
        cell: The cell.
        standing: What has become of it.
        run: Its run; ``None`` before there is one.
        holder: The living process that works at it.
        claimed: Whether a living planner started it.
    """

    cell: Cell
    standing: Standing
    run: RunSummary | None = None
    holder: Holder | None = None
    claimed: bool = False

    @property
    def reason(self) -> str:
        """Why it is not done, as far as that is known."""
        if self.cell.fault:
            return self.cell.fault.what
        if self.run is None:
            return ""
        return self.run.damage or (self.run.status.reason if self.run.status else None) or ""

    @property
    def parameters(self) -> int | None:
        """Of the trained network, or else of the one that is asked for."""
        return self.cell.parameters if self._trained is None else self._trained

    @property
    def size(self) -> str | int | None:
        """The parameters, marked ≤ where they are for the largest vocabulary that may be learnt."""
        found = self.parameters
        exact = self.cell.exact or self._trained is not None
        return found if exact or found is None else f"≤ {found:,}"

    @property
    def _trained(self) -> int | None:
        trained = self.run.about("parameters") if self.run else None
        return trained if isinstance(trained, int) else None


def look(cell: Cell, runs_dir: Path) -> Stand:
    """What has become of one cell."""
    if cell.run_id is None:
        return Stand(cell, Standing.BLOCKED if cell.blocked else Standing.INVALID)
    path = directory_of(runs_dir, cell.run_id)
    run = summarise(path)
    if run is None:
        return Stand(cell, Standing.MISSING)
    if run.status and run.status.state is State.DONE:
        return Stand(cell, Standing.DONE, run)
    holder, claim = living_holder(path / LOCK), living_holder(path / CLAIM)
    elsewhere = claim is not None and (claim.host, claim.pid) != (socket.gethostname(), os.getpid())
    if holder or elsewhere:
        return Stand(cell, Standing.RUNNING, run, holder or claim, claim is not None)
    standing = _STANDINGS[run.status.state] if run.status else Standing.QUEUED  # made, but not yet written to
    return Stand(cell, Standing.INTERRUPTED if standing is Standing.RUNNING else standing, run)


def survey(plan: Plan, runs_dir: Path) -> list[Stand]:
    """What has become of every cell, in their order."""
    return [look(cell, runs_dir) for cell in plan.cells]


def distinct(stands: Iterable[Stand]) -> list[Stand]:
    """The cells that can be run; of those that are one experiment, the first."""
    found: dict[str, Stand] = {}
    for stand in stands:
        if stand.cell.run_id is not None:
            found.setdefault(stand.cell.run_id, stand)
    return list(found.values())


def tally(stands: Iterable[Stand]) -> dict[Standing, int]:
    """How many cells stand where; what no cell is, is left out."""
    found = [stand.standing for stand in stands]
    return {standing: found.count(standing) for standing in Standing if standing in found}


def orphans(stands: Sequence[Stand]) -> int:
    """Runs on this machine whose planner is gone: they take up room that no living planner counts."""
    here = socket.gethostname()
    return sum(
        stand.standing is Standing.RUNNING and not stand.claimed and stand.holder is not None
        and stand.holder.host == here
        for stand in stands
    )  # fmt: skip
