"""``times.json``: how long a run's model takes on some machine, measured after training; no part of its scores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json
from phmrun.files import read_regular, write_json
from phmrun.ledger.values import plain

FILE = "times.json"
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
    """What has been measured on a run, by name, each with value and signature; empty where nothing has."""
    try:
        found = parse_json(read_regular(directory / FILE))
    except (OSError, ValueError):
        return {}
    times = found.get("times") if isinstance(found, Mapping) else None
    return dict(times) if isinstance(times, Mapping) else {}


def write_times(directory: Path, times: Mapping[str, Any]) -> None:
    """Sets some times of a run and leaves the others as they are.

    Args:
        directory: The run's.
        times: By name, each with value, signature, machine, and the seconds of every round.
    """
    write_json(directory / FILE, plain({"times": {**read_times(directory), **times}}))
