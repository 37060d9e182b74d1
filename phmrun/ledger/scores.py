"""Scores and measured times of a run, as ``metrics.json`` and ``bench.json`` have them."""

import re
from collections.abc import Mapping
from typing import Any

OTHER_FILE = "file-"
"""Prefix of scores of another file than the run's own test set."""
PREFIX = "time/"
FIRST = "-first-500"
STEP, EPOCH, BATCH, LINE, TEST = (f"{PREFIX}{what}" for what in ("step", "epoch", "batch", "line", "test"))
TIMES = {
    STEP: "seconds per optimizer step",
    EPOCH: "seconds per pass over the training data",
    BATCH: "seconds per batch of the validation data, scored",
    LINE: "seconds per item of the test set, answered as predict does",
    TEST: "seconds for all of them",
}
"""Times in seconds that ``phmrun bench`` measures of a trained model; not part of its scores."""


def score_value(score: Any) -> float | None:
    """Return the number of a score.

    The result is ``None`` if it has none, or an integer too large for a float. NaN is returned. A score is a number, or
    an object with ``value`` and ``signature``. Booleans are no numbers.
    """
    value = score.get("value") if isinstance(score, dict) else score
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def signature_of(score: Any) -> str:
    """Return the signature of a score as ``metrics.json`` has it; empty for a bare number.

    The optimizer step of the weights is left out: it is an outcome of training, not a setting of the evaluation.
    """
    text = score.get("signature", "") if isinstance(score, Mapping) else ""
    return re.sub(r"(weights:[a-z]+)@\d+", r"\1", str(text))


def first_items(entry: Any) -> dict[str, Any] | None:
    """Return the entry of a score's first 500 items; ``None`` if they are not on record."""
    if not isinstance(entry, Mapping):
        return None
    value = entry.get("extras", {}).get("first_500", entry.get("value") if entry.get("n", 501) <= 500 else None)
    signature = f"{entry.get('signature', '')}|first:500"
    return None if value is None else {"value": value, "signature": signature, "n": min(entry.get("n", 500), 500)}
