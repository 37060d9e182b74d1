"""Ending what works at a sweep: its planners, then the runs that are left. Imports no torch."""

import os
import signal
import socket
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from phmrun.ledger.lock import Holder
from phmrun.sweeps.cell_status import CellState, CellStatus, look
from phmrun.sweeps.executors.local import GRACE
from phmrun.sweeps.workplace import Workplace

PATIENCE = 60.0
"""Seconds that a planner is given to interrupt its runs and leave."""


@dataclass
class Cancelled:
    """What came of it."""

    planners: int = 0  # planners that were ended
    runs: list[str] = field(default_factory=list)  # runs that were ended, planners' included
    left: dict[str, str] = field(default_factory=dict)  # runs that still go on, with the machine that they are on


def cancel(workplace: Workplace, statuses: Sequence[CellStatus]) -> Cancelled:
    """Interrupts the planners of a sweep on this machine, then its runs; all of them can be continued.

    Args:
        workplace: The sweep's folder.
        statuses: Its cells.
    """
    before = [status for status in statuses if status.state is CellState.RUNNING]
    planners = [holder for holder in workplace.planners() if _is_here(holder)]
    for which, seconds in ((signal.SIGINT, PATIENCE), (signal.SIGTERM, 5.0)):
        _end([holder for holder in planners if _lives(holder)], which, seconds, group=False)
    runs = _holders(workplace, before)
    for which, seconds in GRACE:
        _end([holder for holder in runs if _lives(holder)], which, seconds, group=True)
    result = Cancelled(planners=sum(not _lives(holder) for holder in planners))
    for status in before:
        after = look(status.cell, workplace.runs_dir)
        name = str(status.cell.run_id)
        if after.state is CellState.RUNNING:
            result.left[name] = after.holder.host if after.holder else "an unknown machine"
        else:
            result.runs.append(name)
    return result


def _holders(workplace: Workplace, statuses: Iterable[CellStatus]) -> list[Holder]:
    """The processes on this machine that still work at these cells."""
    found = [look(status.cell, workplace.runs_dir).holder for status in statuses]
    return [holder for holder in found if holder is not None and _is_here(holder)]


def _end(holders: Sequence[Holder], which: signal.Signals, seconds: float, *, group: bool) -> None:
    """Signals processes, and waits until they are gone, or for so long."""
    for holder in holders:
        _signal(holder.pid, which, group)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and any(_lives(holder) for holder in holders):
        time.sleep(0.05)


def _signal(pid: int, which: signal.Signals, group: bool) -> None:
    """Signals a process; with the processes that it has started where it leads a group of its own."""
    try:
        if group and os.getpgid(pid) == pid:
            os.killpg(pid, which)
        else:
            os.kill(pid, which)
    except (ProcessLookupError, PermissionError):  # it has ended, or is not ours to end; the caller looks again
        return


def _is_here(holder: Holder) -> bool:
    return (holder.host, holder.space) == (socket.gethostname(), Holder.this_process().space)


def _lives(holder: Holder) -> bool:
    return holder.lives(0.0)
