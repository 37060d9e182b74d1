"""Accuracy: the share of items that get the right label, with the share that the most frequent label alone would get.

The interval is Wilson's for a binomial share (Wilson 1927): it stays within 0 and 100 and keeps its width honest where
nearly all items are right, or few are scored.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from phmrun.errors import ExitCode, PhmrunError
from phmrun.metrics.score import Score

Z = 1.959963984540054
"""Quantile of the normal distribution that leaves 2.5% above it."""


class Outcome(NamedTuple):
    """What became of an item.

    Attributes:
        gold: Its label.
        predicted: The label that it was given.
        part: The part of the test set that it belongs to; empty: none.
    """

    gold: str
    predicted: str
    part: str = ""


def accuracy(counts: Mapping[Outcome, int], left_out: Mapping[str, int] | None = None) -> dict[str, Score]:
    """Accuracies in percent, each beside that of the most frequent label of the items that it is taken over.

    Args:
        counts: How often each outcome occurred.
        left_out: Items of the test set that are not scored, by reason.

    Returns:
        "accuracy" over all items and "accuracy-<part>" over each part, with the recall of each label in the extras;
        "accuracy-of-majority" and "accuracy-of-majority-<part>".

    Raises:
        PhmrunError: (exit 3) There is no item.
    """
    if not sum(counts.values()):
        raise PhmrunError("there is no item to score", code=ExitCode.DATA)
    parts = sorted({outcome.part for outcome in counts if outcome.part})
    scores: dict[str, Score] = {}
    baselines: dict[str, Score] = {}
    for part in ("", *parts):
        chosen = Counter({outcome: count for outcome, count in counts.items() if part in ("", outcome.part)})
        ending = f"-{part}" if part else ""
        kept_back = _told(left_out or {}) if not part else ""
        scores[f"accuracy{ending}"] = _share(chosen, kept_back)
        baselines[f"accuracy-of-majority{ending}"] = _majority(chosen, kept_back)
    return scores | baselines


def wilson(hits: int, n: int) -> tuple[float, float]:
    """The 95% interval of a share of which ``hits`` of ``n`` were seen, in percent."""
    share, z2 = hits / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return 100 * max(0.0, min(share, middle - half)), 100 * min(1.0, max(share, middle + half))


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


def _majority(counts: Mapping[Outcome, int], kept_back: str) -> Score:
    """What the most frequent label of these very items gets; of equally frequent ones the first by name."""
    gold: Counter[str] = Counter()
    for outcome, count in counts.items():
        gold[outcome.gold] += count
    label = min(gold, key=lambda name: (-gold[name], name))
    n = gold.total()
    return Score("accuracy of the majority", 100 * gold[label] / n, f"always:{label}{kept_back}", n, "items")


def _told(left_out: Mapping[str, int]) -> str:
    """The items that are not scored, as part of a signature."""
    return "".join(f"|{reason.replace(' ', '-')}:{count}" for reason, count in sorted(left_out.items()) if count)
