"""Executors: jobs on this machine, a SLURM or a Ray cluster."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from phmrun.ledger.child import start
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
