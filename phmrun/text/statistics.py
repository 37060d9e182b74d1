"""What is odd in the figures of some data."""

from collections.abc import Iterator, Mapping
from typing import Any

DOUBTFUL = 0.5
"""The share of unknown words from which on the data are doubted."""


def doubts(statistics: Mapping[str, Any]) -> Iterator[str]:
    """What is odd in the figures of some data, in a sentence each.

    Args:
        statistics: Counts by split, as a run's ``parameters.json`` has them.
    """
    for split, counts in statistics.get("splits", {}).items():
        for side, share in _unknown(counts):
            if split != "train" and share >= DOUBTFUL:
                where = " ".join(filter(None, (split, side)))
                yield (
                    f"{where}: {share:.0%} of the words are not in the vocabulary of the training data; "
                    "is it the same language, and are words parted from marks alike?"
                )
        for label, count in counts.get("labels", {}).items() if split == "train" else ():
            if not count:
                yield f"train: no item has the label {label}"


def _unknown(counts: Mapping[str, Any], side: str = "") -> Iterator[tuple[str, float]]:
    if "unknown_rate" in counts:
        yield side, counts["unknown_rate"]
    for name, inner in counts.items():
        if isinstance(inner, Mapping):
            yield from _unknown(inner, name)
