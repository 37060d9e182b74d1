"""Accuracy of labels, and the accuracy of the most frequent label.

The interval is Wilson's for a binomial share (Wilson 1927). It stays within 0 and 100 and is accurate for shares near
100 % and for few items.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from phmrun.errors import data_error
from phmrun.metrics.score import Score

Z = 1.959963984540054  # quantile of the normal distribution that leaves 2.5% above it


class LabelPair(NamedTuple):
    """Gold and predicted label of an item.

    Attributes:
        gold: Gold label.
        predicted: Predicted label.
        part: Part of the test set that the item belongs to; empty: none.
    """

    gold: str
    predicted: str
    part: str = ""


def accuracy(
    counts: Mapping[LabelPair, int], left_out: Mapping[str, int] | None = None, ending: str = ""
) -> dict[str, Score]:
    """Compute accuracies in percent.

    They have Wilson's 95 % interval and the recall of each gold label.

    Args:
        counts: Number of items by gold label, predicted label and part.
        left_out: Number of items that are not scored, by reason; part of the signature over all items.
        ending: Suffix of the scores' names, before that of the part: "-of-copy".

    Returns:
        "accuracy" over all items and "accuracy-<part>" over each part. Extras: the number of correct items, and the
        recall of each gold label in percent.

    Raises:
        PhmrunError: (exit 3) There is no item.
    """
    scores = {}
    for part, chosen, reasons in _by_part(counts, left_out):
        gold, right = _gold(chosen), Counter[str]()
        for outcome, count in chosen.items():
            right[outcome.gold] += count * (outcome.gold == outcome.predicted)
        n, hits = gold.total(), right.total()
        recall = {label: 100 * right[label] / count for label, count in sorted(gold.items())}
        signature = f"labels:{'+'.join(sorted(gold))}{reasons}|ci:wilson95"
        extras = {"correct": hits, "recall": recall}
        value = 100 * hits / n
        scores[f"accuracy{ending}{part}"] = Score(
            "accuracy", value, signature, n, "items", ci=wilson(hits, n), extras=extras
        )
    return scores


def majority(counts: Mapping[LabelPair, int], left_out: Mapping[str, int] | None = None) -> dict[str, Score]:
    """Compute the accuracy of the most frequent gold label, in percent.

    Ties go to the first label by name. Each part has its own label. Arguments and errors are those of :func:`accuracy`.

    Returns:
        "accuracy-of-majority" over all items and "accuracy-of-majority-<part>" over each part, without intervals.
    """
    scores = {}
    for part, chosen, reasons in _by_part(counts, left_out):
        gold = _gold(chosen)
        label, n = min(gold, key=lambda name: (-gold[name], name)), gold.total()
        value = 100 * gold[label] / n
        scores[f"accuracy-of-majority{part}"] = Score(
            "accuracy of the majority", value, f"always:{label}{reasons}", n, "items"
        )
    return scores


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of the share ``hits / n``, in percent.

    Raises:
        ZeroDivisionError: ``n`` is 0.
    """
    share, z2 = hits / n, Z * Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = Z / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    return 100 * max(0.0, min(share, middle - half)), 100 * min(1.0, max(share, middle + half))


def _gold(counts: Mapping[LabelPair, int]) -> Counter[str]:
    """Count the items of each gold label."""
    gold: Counter[str] = Counter()
    for outcome, count in counts.items():
        gold[outcome.gold] += count
    return gold


def _by_part(
    counts: Mapping[LabelPair, int], left_out: Mapping[str, int] | None
) -> Iterator[tuple[str, Mapping[LabelPair, int], str]]:
    """Yield name suffix, counts, and signature of left-out items.

    First for all items, then for each part by name. Suffix and signature of all items are "" and "|reason:count…";
    those of a part are "-part" and "".

    Raises:
        PhmrunError: (exit 3) There is no item.
    """
    if not sum(counts.values()):
        raise data_error("there is no item to score")
    yield "", counts, "".join(f"|{name.replace(' ', '-')}:{count}" for name, count in sorted((left_out or {}).items()))
    for part in sorted({outcome.part for outcome in counts if outcome.part}):
        yield f"-{part}", {outcome: count for outcome, count in counts.items() if outcome.part == part}, ""
