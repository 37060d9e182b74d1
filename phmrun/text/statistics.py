"""What a split of a corpus holds, counted while it streams by."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phmrun.text.vocabulary import UNK

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


class SideStatistics:
    """Counts of one side of a split.

    Args:
        vocabulary_size: Ids are below this.
    """

    def __init__(self, vocabulary_size: int) -> None:
        self.tokens = 0
        self.unknown = 0
        self.longest = 0
        self._seen = np.zeros(vocabulary_size, dtype=bool)

    def add(self, ids: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        """Counts sentences: their tokens, one after the other, and their lengths."""
        self.tokens += len(ids)
        self.unknown += int(np.count_nonzero(ids == UNK))
        self.longest = max(self.longest, int(lengths.max(initial=0)))
        self._seen[ids] = True

    def as_dict(self, sentences: int) -> dict[str, Any]:
        """Tokens, mean and highest length (tokens), unknown tokens' share, different tokens seen."""
        return {
            "tokens": self.tokens,
            "mean_length": round(self.tokens / sentences, 3) if sentences else 0.0,
            "max_length": self.longest,
            "unknown_rate": self.unknown / self.tokens if self.tokens else 0.0,
            "types": int(self._seen.sum()),
        }
