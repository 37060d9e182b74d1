"""Accuracy: the share of items that get the right label, and the share that the most frequent label alone would get.

The interval is Wilson's for a binomial share (Wilson 1927): it stays within 0 and 100 and keeps its width honest where
nearly all items are right, or few are scored.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from phmrun.errors import ExitCode, PhmrunError
from phmrun.metrics.score import Score

Z = 1.959963984540054  # quantile of the normal distribution that leaves 2.5% above it


class Outcome(NamedTuple):
    """What became of an item."""

    gold: str
    predicted: str  # the label that it was given
    part: str = ""  # the part of the test set that it belongs to; empty: none


def accuracy(
    counts: Mapping[Outcome, int], left_out: Mapping[str, int] | None = None, ending: str = ""
) -> dict[str, Score]:
    """Accuracies in percent, with Wilson's interval, and the recall of each label in the extras.

    Args:
        counts: How often each outcome occurred.
        left_out: Items of the test set that are not scored, by reason.
        ending: Of the scores' names, before the part's: "-of-copy".

    Returns:
        "accuracy" over all items and "accuracy-<part>" over each part.

    Raises:
        PhmrunError: (exit 3) There is no item.
    """
    return {f"accuracy{ending}{part}": _share(chosen, told) for part, chosen, told in _by_part(counts, left_out)}


def majority(counts: Mapping[Outcome, int], left_out: Mapping[str, int] | None = None) -> dict[str, Score]:
    """What the most frequent label of the scored items would get by itself.

    Args:
        counts: How often each outcome occurred; only the gold labels matter.
        left_out: Items of the test set that are not scored, by reason.

    Returns:
        "accuracy-of-majority" and "accuracy-of-majority-<part>".

    Raises:
        PhmrunError: (exit 3) There is no item.
    """
    found = _by_part(counts, left_out)
    return {f"accuracy-of-majority{part}": _most_frequent(chosen, told) for part, chosen, told in found}


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95% interval of a share of which ``hits`` of ``n`` were seen, in percent."""
    share, z2 = hits / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return 100 * max(0.0, min(share, middle - half)), 100 * min(1.0, max(share, middle + half))


def _by_part(
    counts: Mapping[Outcome, int], left_out: Mapping[str, int] | None
) -> Iterator[tuple[str, Mapping[Outcome, int], str]]:
    """All outcomes, then each part's: ending of the score's name, outcomes, what a signature says of the others."""
    if not sum(counts.values()):
        raise PhmrunError("there is no item to score", code=ExitCode.DATA)
    yield "", counts, "".join(f"|{name.replace(' ', '-')}:{count}" for name, count in sorted((left_out or {}).items()))
    for part in sorted({outcome.part for outcome in counts if outcome.part}):
        yield f"-{part}", {outcome: count for outcome, count in counts.items() if outcome.part == part}, ""


def _share(counts: Mapping[Outcome, int], kept_back: str) -> Score:
    """Accuracy over all of ``counts``."""
    n = sum(counts.values())
    gold: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for outcome, count in counts.items():
        gold[outcome.gold] += count
        right[outcome.gold] += count * (outcome.gold == outcome.predicted)
    hits = right.total()
    recall = {label: 100 * right[label] / count for label, count in sorted(gold.items())}
    signature = f"labels:{'+'.join(sorted(gold))}{kept_back}|ci:wilson95"
    extras = {"correct": hits, "recall": recall}
    return Score("accuracy", 100 * hits / n, signature, n, "items", ci=wilson(hits, n), extras=extras)


def _most_frequent(counts: Mapping[Outcome, int], kept_back: str) -> Score:
    """The most frequent label's accuracy; of equally frequent ones the first by name."""
    gold: Counter[str] = Counter()
    for outcome, count in counts.items():
        gold[outcome.gold] += count
    label = min(gold, key=lambda name: (-gold[name], name))
    n = gold.total()
    return Score("accuracy of the majority", 100 * gold[label] / n, f"always:{label}{kept_back}", n, "items")
