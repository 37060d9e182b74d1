"""Load of this machine's processor cores by other processes.

Imports no torch.
"""

import os
import time
from collections.abc import Sequence
from pathlib import Path

STAT = Path("/proc/stat")
LOOK = 0.25
"""Seconds over which the load is measured."""
IDLE = (3, 4)
"""Columns of ``/proc/stat`` in which a core waits: idle, and idle for a disk."""


def busy_cores(seconds: float = LOOK) -> int:
    """Return the number of usable cores that other processes keep busy.

    It is the rounded sum of the cores' busy shares, by all processes. This process sleeps for ``seconds`` (0.25)
    meanwhile. Without ``/proc/stat`` the number is 0, at once.
    """
    before = core_ticks()
    if not before:
        return 0
    time.sleep(seconds)
    after = core_ticks()
    shares = (_busy_share(before[core], after[core]) for core in usable() if core in before and core in after)
    return round(sum(shares))


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


def _busy_share(before: Sequence[int], after: Sequence[int]) -> float:
    """Return the busy share (0–1) of a core between two readings.

    Idle time and waiting for a disk do not count. The result is 0 if no time passed.
    """
    ticks = [late - early for early, late in zip(before, after, strict=True)]
    total = sum(ticks)
    return (total - sum(ticks[column] for column in IDLE)) / total if total > 0 else 0.0
