"""Entry of a process in ``environment.json``: environment, steps, times, memory, state."""

import os
import platform
import resource
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from phmrun.cores import usable_cores
from phmrun.errors import PhmrunError
from phmrun.ledger.environment import code, command, differences, now, packages, processor
from phmrun.ledger.run import Run
from phmrun.ledger.status import State

WRITE_EVERY = 30.0
"""Minimum seconds between two writes of an entry during training."""


class Segment:
    """Entry of one process in ``environment.json``; creating it writes it.

    Args:
        run: Run whose lock this process holds.
        facts: Facts of the environment: :func:`facts` and those of torch.
    """

    def __init__(self, run: Run, facts: Mapping[str, Any]) -> None:
        self.run = run
        self.before = run.environment()
        self.entry: dict[str, Any] = {"started": now(), "ended": None, "state": "running", **facts}
        self._began, self._written = time.monotonic(), -WRITE_EVERY
        self._used = _cpu_seconds()
        self.write()

    def resumed(self, step: int) -> list[str]:
        """Write the step from which training continues.

        Step 0 is a new training.

        Returns:
            Differences between the previous environment and this one; empty at step 0.
        """
        self.entry["first_step"] = self.entry["last_step"] = step
        self.write()
        return differences(self.before[-1], self.entry) if step and self.before else []

    def progress(self, step: int) -> None:
        """Record the last step of this process.

        The entry is written only if its last write was 30 seconds ago or more.
        """
        self.entry["last_step"] = step
        if time.monotonic() - self._written >= WRITE_EVERY:
            self.write()

    def end(self, state: str) -> None:
        """Write the entry with the time of the end and a final state."""
        self.entry |= {"ended": now(), "state": state}
        self.write()

    def write(self) -> None:
        """Write the entry after those of earlier processes.

        Its times (seconds since creation) and peak memory (bytes) are updated first.
        """
        self._written = time.monotonic()
        self.entry |= {
            "wall_seconds": round(self._written - self._began, 3),
            "cpu_seconds": round(_cpu_seconds() - self._used, 3),
            "peak_memory_bytes": peak_resident(),
        }
        self.run.write_environment([*self.before, self.entry])


@contextmanager
def segment_of(run: Run, facts: Mapping[str, Any]) -> Iterator[Segment]:
    """Record the block in ``environment.json``, and yield the entry.

    It ends with the state of the run. If the block raises, it ends with "interrupted" (by Ctrl-C, exit or the run's
    state) or "failed"; errors of writing are then ignored. A fork of the process writes nothing.

    Args:
        run: Run whose lock this process holds.
        facts: Facts of the environment.
    """
    segment = Segment(run, facts)
    try:
        yield segment
    except BaseException as error:
        if not run.access.lock.forked:
            with suppress(OSError, PhmrunError):  # a full disk may be the cause, or a deleted folder
                stopped = isinstance(error, KeyboardInterrupt | SystemExit) or run.status.state is State.INTERRUPTED
                segment.end("interrupted" if stopped else "failed")
        raise
    if not run.access.lock.forked:
        segment.end(run.status.state.value)


def facts() -> dict[str, Any]:
    """Return the environment of this process, without torch's facts.

    Keys: "command", "python", "packages", "code", "system", "host", "processor", "cores", "usable_cores" and
    "memory_bytes". Unknown cores are ``None``.
    """
    return {
        "command": command(),
        "python": platform.python_version(),
        "packages": dict(packages()),
        "code": code(),
        "system": platform.platform(),
        "host": socket.gethostname(),
        "processor": processor(),
        "cores": os.cpu_count(),
        "usable_cores": usable_cores(),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
    }


def peak_resident() -> int:
    """Return the peak resident memory of this process, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if platform.system() == "Darwin" else most * 2**10


def _cpu_seconds() -> float:
    """Return this process's processor time in seconds.

    User and system time are added; children that have ended and were waited for are included.
    """
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)
