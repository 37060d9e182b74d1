"""Counts that each test item adds to a metric, as the readers of runs return them."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from phmrun.metrics.bootstrap import Counts


class Items(NamedTuple):
    """Counts of every test item of a run."""

    counts: Counts  # ``[items, kinds]``
    mark: str  # checksum of the references, gold labels or gold trees
    file: str = ""  # checksum of the data file, if labels alone could be alike; empty: not recorded


def checksum(lines: Sequence[str]) -> str:
    """SHA-256 of the references, which tells whether two runs were scored on the same items."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
