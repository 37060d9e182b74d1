"""``bench.json``: how long a run's model takes on some machine, measured after training; no part of its scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json
from phmrun.files import read_regular

BENCH = "bench.json"
FORMER = "times.json"
"""Where releases up to 0.1 kept the times of :data:`TIMES`; still read."""
PREFIX = "time/"
STEP, EPOCH, BATCH, LINE, TEST = (f"{PREFIX}{what}" for what in ("step", "epoch", "batch", "line", "test"))
TIMES = {
    STEP: "seconds per optimizer step",
    EPOCH: "seconds per pass over the training data",
    BATCH: "seconds per batch of the validation data, scored",
    LINE: "seconds per item of the test set, answered as predict does",
    TEST: "seconds for all of them",
}
"""What can be measured, in seconds."""


def read_times(directory: Path) -> dict[str, Any]:
    """The times of :data:`TIMES` measured on a run, by name, each with value and signature; empty where none is."""
    former = _object(directory / FORMER).get("times")
    times = {name: each for name, each in _object(directory / BENCH).items() if name.startswith(PREFIX)}
    return {**former, **times} if isinstance(former, Mapping) else times


def _object(path: Path) -> Mapping[str, Any]:
    """What a file holds; nothing where it is missing or damaged."""
    try:
        found = parse_json(read_regular(path))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}
