"""Per-item counts of a metric, as returned by the readers of runs."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from phmrun.metrics.bootstrap import Counts


class Items(NamedTuple):
    """Per-item counts of a run's test set.

    Attributes:
        counts: Counts ``[items, kinds]``.
        mark: Checksum of the references, gold labels or gold trees.
        file: Checksum of the data file, if labels alone are ambiguous; empty: not recorded.
    """

    counts: Counts  # ``[items, kinds]``
    mark: str  # checksum of the references, gold labels or gold trees
    file: str = ""  # checksum of the data file, if labels alone are ambiguous; empty: not recorded


def checksum(lines: Sequence[str]) -> str:
    """Return the SHA-256 (hex) of lines joined by line breaks.

    Lines are the references of the scored items, which it identifies.
    """
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
