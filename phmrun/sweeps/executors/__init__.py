"""Where runs are carried out, each in a process of its own: on this machine, on a SLURM or a Ray cluster."""

import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from phmrun.ledger.environment import now

GRACE = ((signal.SIGINT, 30.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
"""How a run is ended: the signals, and the seconds that each is given."""


@dataclass(frozen=True)
class Job:
    """One run to carry out."""

    run_id: str  # its name
    command: tuple[str, ...]  # what to call, program first
    log: Path  # the file that its output is appended to


class Ended(NamedTuple):
    """A job that has come to its end."""

    run_id: str  # its name
    code: int  # the exit code; negative for the signal that killed it


class Executor(Protocol):
    """Carries out jobs while a planner looks on."""

    def room(self) -> int:
        """How many more jobs it would start at once."""

    def submit(self, jobs: Sequence[Job]) -> None:
        """Starts these jobs, no more than there is room for."""

    def poll(self) -> list[Ended]:
        """The jobs that have ended since the last call."""

    def stop(self) -> None:
        """Interrupts all jobs that it has started, and waits until they are gone."""


def start(job: Job, where: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
    """A child in a session of its own, so that the terminal's Ctrl-C reaches it through the planner alone."""
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
