"""Where runs are carried out, each in a process of its own: on this machine, on a SLURM or a Ray cluster."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol


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
