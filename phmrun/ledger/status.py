"""State of a run, with times and progress: ``status.json``."""

import os
import re
import socket
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from phmrun.ledger.environment import now
from phmrun.ledger.lock import LOCK, living_holder


class State(StrEnum):
    """State of a run.

    Attributes:
        QUEUED: Created, not started.
        RUNNING: In training by a process that holds its lock.
        DONE: Finished.
        FAILED: Stopped by an error that a restart does not solve: out of memory, NaN loss.
        INTERRUPTED: Stopped; the same command continues it.
        DAMAGED: Its files cannot be read; never stored.
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    DAMAGED = "damaged"


DIVERGED = re.compile(
    r"(exit code 4: )?((the training loss|the validation's \S+) is (nan|-?inf) at optimizer step \d+"
    r"|the weights \S+ are no longer numbers at optimizer step \d+|\S+ is (nan|-?inf), which is not a finite number)"
)
"""Reasons of a run that ``phmrun.engine.checkpoints.diverged`` or a script's score has ended; others may quote them."""


@dataclass(frozen=True)
class Status:
    """Content of ``status.json``. Times are ISO 8601 in UTC.

    Attributes:
        state: State of the run.
        reason: Cause of the state in a phrase; ``None`` if there is none.
        step: Optimizer steps so far.
        started: Time of the first start.
        updated: Time of writing.
        ended: Time of the end; ``None`` if the run has not ended.
        host: Machine that wrote the status.
        pid: Process that wrote the status.
        seconds: Seconds of training, summed over all continuations.
        about: Facts for listings: task, data, layer, network, seed, parameters.
    """

    state: State
    reason: str | None = None
    step: Annotated[int, Field(ge=0, lt=2**63)] = 0
    started: str | None = None
    updated: str | None = None
    ended: str | None = None
    host: str | None = None
    pid: int | None = None
    seconds: Annotated[float, Field(ge=0, lt=2**63)] = 0.0
    about: dict[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """False for a damaged status."""
        return self.state is not State.DAMAGED

    @property
    def diverged(self) -> bool:
        """True if the run failed because training stopped at NaN or infinity, or has such a score."""
        return self.state is State.FAILED and bool(DIVERGED.fullmatch(self.reason or ""))

    @classmethod
    def from_json(cls, content: Any) -> "Status":
        """Return the status of a JSON object.

        Unknown keys are ignored; missing ones have their defaults, except the state.

        Raises:
            ValueError: The state is missing or unknown, or a value has a wrong type or is out of range.
        """
        try:
            return _STATUS.validate_python(content)
        except ValidationError as error:
            fault = error.errors()[0]
            raise ValueError(f"{'.'.join(map(str, fault['loc']))} is {fault['input']!r:.80}") from None

    def to_json(self) -> dict[str, Any]:
        """Return the status as a JSON object."""
        return {**vars(self), "about": dict(self.about), "state": self.state.value}

    def signed(self) -> "Status":
        """Return a copy with the present time, machine and process."""
        return replace(self, updated=now(), host=socket.gethostname(), pid=os.getpid())


_STATUS = TypeAdapter(Status)


def as_found(status: Status, path: Path) -> Status:
    """Return the effective status.

    A running status without a living holder of the lock becomes interrupted, with the reason "its process died", ended
    at its last update. Others are returned unchanged. Nothing is written.
    """
    if status.state is not State.RUNNING or living_holder(path / LOCK) is not None:
        return status
    return replace(status, state=State.INTERRUPTED, reason="its process died", ended=status.updated)


def reason_of(error: Exception) -> str:
    """Return the reason of a reading error.

    It is the system's phrase, else the message, at most 200 characters on one line.
    """
    return error.strerror if isinstance(error, OSError) and error.strerror else " ".join(str(error).split())[:200]
