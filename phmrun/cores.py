"""Load of this machine's processor cores by other processes.

Imports no torch.
"""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
LOOK = 0.25
"""Seconds over which the load is measured."""
IDLE = 3
"""Column of ``/proc/stat`` for an idle core; the next one is for a core that waits for a disk."""


def busy_cores() -> int:
    """Return the number of usable cores that other processes keep busy.

    It is the rounded sum of the cores' busy shares, by all processes. This process sleeps for 0.25 seconds
    meanwhile. Without ``/proc/stat`` the number is 0, at once.
    """
    before = core_ticks()
    if not before:
        return 0
    time.sleep(LOOK)
    after = core_ticks()
    cores = [core for core in usable() if core in before and core in after]
    spent = [[late - early for early, late in zip(before[core], after[core], strict=True)] for core in cores]
    # Waiting for a disk counts as idle, too.
    return round(sum((sum(ticks) - ticks[IDLE] - ticks[IDLE + 1]) / sum(ticks) for ticks in spent if sum(ticks) > 0))


def usable_cores() -> int:
    """Return the number of processor cores that this process may use.

    If the system does not tell, it is the number of all cores; 1 if that is unknown, too.
    """
    return len(usable())


def usable() -> set[int]:
    """Return the core numbers that this process may use.

    They are all cores if the system does not tell, and core 0 alone if their number is unknown.
    """
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def core_ticks() -> dict[int, list[int]]:
    """Return the clock ticks of each core from ``/proc/stat``.

    Each core has eight numbers since the system's start, in the file's order of kinds. Only cores that are online are
    listed.

    The result is empty without it.
    """
    try:
        lines = STAT.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    rows = [line.split() for line in lines if line.startswith("cpu") and line[3:4].isdigit()]
    return {int(row[0][3:]): [int(ticks) for ticks in row[1:9]] for row in rows}
