"""Executors: jobs on this machine, a SLURM or a Ray cluster."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from phmrun.ledger.environment import now

GRACE = ((signal.SIGINT, 30.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
"""Signals that end a run, in order, each with the seconds to wait after it."""


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


def start(job: Job, where: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """Start a job as a child process in its own session.

    Return the process. Output is appended to its log, after a line with time and command. The terminal's Ctrl-C reaches
    the job only through its planner.

    Args:
        job: The job.
        where: Place for the log's first line, such as " on device 0".
        environment: Environment variables; this process's if not given.
    """
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab", buffering=0) as log:
        log.write(f"{now()} started{where}: {' '.join(job.command)}\n".encode())
        return subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )


def end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Interrupt processes with their groups, then send stronger signals, until they have ended; see :data:`GRACE`."""
    for which, seconds in GRACE:
        for process in processes:
            with suppress(ProcessLookupError):  # it has ended in this instant
                if process.poll() is None:
                    os.killpg(process.pid, which)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(process.poll() is None for process in processes):
            time.sleep(0.05)
