"""What a run is and what it is doing: ``status.json``, whether a process lives that does it, labels for listings."""

import json
import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from phmrun.documents import parse_yaml
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import write_json
from phmrun.ledger.lock import LOCK, living_holder


class State(StrEnum):
    """The states of a run.

    A run begins as ``queued``; a process that holds its lock makes it ``running`` and at the end ``done``, ``failed``
    (it cannot go on by itself: no memory, NaN loss) or ``interrupted`` (the same command continues it).
    """

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Status:
    """The content of ``status.json``.

    Attributes:
        reason: Why, in a phrase: what failed, what stopped it.
        step: Optimizer steps done.
        started: When it first ran; all times are ISO 8601 in UTC.
        updated: When this was written, by the process ``pid`` of the machine ``host``.
        ended: When it was done, failed or interrupted.
        seconds: Seconds of training, over all the times that the run was continued.
        about: What the run is, for listings: task, data, layer, seed, parameters.
    """

    state: State = State.QUEUED
    reason: str | None = None
    step: int = 0
    started: str | None = None
    updated: str | None = None
    ended: str | None = None
    host: str | None = None
    pid: int | None = None
    seconds: float = 0.0
    about: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Any) -> "Status":
        """The status that a JSON object holds, or a ``ValueError``; keys of a newer release are passed over."""
        if not isinstance(content, Mapping) or "state" not in content:
            raise ValueError("no state in it")
        known = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        status = cls(**{**known, "state": State(content["state"])})
        for name, kind in _KINDS.items():
            if not isinstance(getattr(status, name), kind):
                raise ValueError(f"{name} is {getattr(status, name)!r:.80}")
        if not (0 <= status.step < 2**63 and 0 <= status.seconds < 2**63):
            raise ValueError("step or seconds is out of range")
        json.dumps(asdict(status), ensure_ascii=False).encode("utf-8")  # a lone surrogate is no text
        return status

    def to_json(self) -> dict[str, Any]:
        """The status as a JSON object."""
        return {**asdict(self), "state": self.state.value}

    def write(self, path: Path, before_renaming: Callable[[], None] | None = None) -> "Status":
        """Writes it as this process's word of now, and returns what is written."""
        written = replace(self, updated=now(), host=socket.gethostname(), pid=os.getpid())
        write_json(path, written.to_json(), before_renaming)
        return written


_KINDS: dict[str, Any] = {
    **dict.fromkeys(("reason", "started", "updated", "ended"), str | None),
    **{"step": int, "seconds": int | float, "about": dict},
}


def now() -> str:
    """The time as ISO 8601 in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def as_found(status: Status, path: Path) -> Status:
    """The status as it is in truth: a run that no living process holds is not running, whatever was written last."""
    if status.state is not State.RUNNING or living_holder(path / LOCK) is not None:
        return status
    return replace(status, state=State.INTERRUPTED, reason="its process ended without a word", ended=status.updated)


PLAIN = "dense"


def about_config(config_yaml: str) -> dict[str, Any]:
    """Task, data, network and seed of a resolved config; what the config does not say is left out.

    ``layer`` is the structure inside the blocks, ``network`` names all parts that are not dense.
    """
    try:
        config = parse_yaml(config_yaml, "config.yaml")
    except PhmrunError:
        return {}
    if not isinstance(config, Mapping):
        return {}
    data = config.get("data")
    found = {
        "task": config.get("task"),
        "data": data.get("name") if isinstance(data, Mapping) else data,
        "layer": layer_label(config.get("layer")),
        "network": network_label(config),
        "seed": config.get("seed"),
    }
    return {key: value for key, value in found.items() if value is not None}


def config_values(path: Path) -> dict[str, Any]:
    """What a run's ``config.yaml`` says, as plain values; a `PhmrunError` (exit 3) where it cannot be read."""
    try:
        values = parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError, PhmrunError) as error:
        why, where = (error.what, error.where) if isinstance(error, PhmrunError) else (error, str(path))
        raise PhmrunError(f"the configuration cannot be read: {why}", where=where, code=ExitCode.DATA) from error
    return values if isinstance(values, dict) else {}


def layer_label(layer: Any, *, words: bool = False) -> str | None:
    """A weight structure, as a section or a name, with its numbers: ``phm n=8``.

    With ``words`` options that are words or switches are named too, ``phm n=8 freeze=a``: of what somebody wrote, not
    of a resolved configuration, which holds every option.
    """
    if not isinstance(layer, Mapping):
        return str(layer) if layer else None
    named = [
        f"{key}={str(value).lower() if isinstance(value, bool) else value}"
        for key, value in layer.items()
        if key != "structure" and (words or (isinstance(value, int | float) and not isinstance(value, bool)))
    ]
    return " ".join([str(layer.get("structure", PLAIN)), *named])


def network_label(config: Mapping[str, Any]) -> str | None:
    """The parts of a network that are not dense: ``phm n=8``, ``output circulant``; ``dense`` where all are.

    ``None`` where the config says nothing of its layers.
    """
    labels = {part: layer_label(config.get(part)) for part in ("layer", "embedding", "output")}
    if not any(labels.values()):
        return None
    named = {part: label for part, label in labels.items() if label not in (None, PLAIN)}
    return ", ".join(f"{part} {label}".removeprefix("layer ") for part, label in named.items()) or PLAIN
