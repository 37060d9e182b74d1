"""Executors: jobs on this machine, a SLURM or a Ray cluster."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from phmrun.ledger.child import end, start
from phmrun.ledger.environment import now


@dataclass(frozen=True)
class Job:
    """Command of a run."""

    run_id: str  # its name
    command: tuple[str, ...]  # program and its arguments
    log: Path  # file that its output is appended to


class Ended(NamedTuple):
    """Job that has ended."""

    run_id: str  # its name
    code: int  # exit code; minus the signal if one killed it


class Executor(Protocol):
    """Interface of executors, polled by a planner."""

    def room(self) -> int:
        """Return the number of jobs that can start now."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start these jobs, at most :meth:`room` of them."""

    def poll(self) -> list[Ended]:
        """Return the jobs that have ended since the last call."""

    def stop(self) -> None:
        """Interrupt all jobs of this executor.

        Wait until they have ended or survived all signals. :meth:`poll` still returns them afterwards.
        """


def start_job(job: Job, where: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a job as a child process; its output is appended to its log, after a line with time and command.

    Args:
        job: The job.
        where: Place for the log's first line, such as " on device 0".
        environment: Environment variables; this process's if not given.
    """
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab", buffering=0) as log:
        log.write(f"{now()} started{where}: {' '.join(job.command)}\n".encode())
        return start(job.command, log, environment)


class LocalExecutor:
    """Executor on this machine, one child process per slot.

    Args:
        slots: Number of jobs at a time; None: one per device, else one.
        devices: GPU numbers, used in turn by the slots; if empty, jobs see the GPUs of this process.
    """

    def __init__(self, slots: int | None, devices: Sequence[str] = ()) -> None:
        self.devices = list(devices)
        self._free = list(range(slots or len(devices) or 1))
        self._running: dict[str, tuple[int, subprocess.Popen[bytes]]] = {}  # slot and process of each run

    def room(self) -> int:
        """Return the number of free slots."""
        return len(self._free)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Start the jobs, each in the lowest free slot.

        If there are devices, the job sees that of its slot only (``CUDA_VISIBLE_DEVICES``).

        Raises:
            IndexError: There are more jobs than free slots.
            OSError: The log of a job cannot be written.
        """
        for job in jobs:
            slot, environment, where = self._free[0], dict(os.environ), ""
            if self.devices:
                environment["CUDA_VISIBLE_DEVICES"] = self.devices[slot % len(self.devices)]
                where = f" on device {environment['CUDA_VISIBLE_DEVICES']}"
            self._running[job.run_id] = slot, start_job(job, where, environment)
            self._free.remove(slot)

    def poll(self) -> list[Ended]:
        """Return the jobs whose processes have ended since the last call.

        Their slots become free.
        """
        ended = []
        for run_id, (slot, process) in list(self._running.items()):
            code = process.poll()
            if code is not None:
                del self._running[run_id]
                self._free = sorted([*self._free, slot])
                ended.append(Ended(run_id, code))
        return ended

    def stop(self) -> None:
        """Interrupt all jobs, then send stronger signals, until they have ended.

        After SIGINT, it waits at most 30 seconds, after SIGTERM and SIGKILL 10 seconds each.
        """
        end([process for _, process in self._running.values()])
