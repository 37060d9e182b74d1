"""What every executor offers: it carries out runs, each in a process of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol


@dataclass(frozen=True)
class Job:
    """One run to carry out.

    Attributes:
        run_id: Its name.
        command: What to call, program first.
        log: The file that its output is appended to.
    """

    run_id: str
    command: tuple[str, ...]
    log: Path


class Ended(NamedTuple):
    """A job that has come to its end.

    Attributes:
        run_id: Its name.
        code: The exit code; negative for the signal that killed it.
    """

    run_id: str
    code: int


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
