"""My metric: the share of right labels of the rarer class, in percent.

Runs of the tasks that it names are scored with it by ``train`` and ``eval``, as "test/my-metric".
"""

import numpy as np
from numpy.typing import NDArray

from phmrun.ledger import Run
from phmrun.metric import Metric
from phmrun.metrics.items import Items, checksum
from phmrun.registry import METRICS


def measure(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """Score of summed counts ``[sets, 2]``: right items of the class, and all of its items."""
    score: NDArray[np.float64] = 100 * sums[..., 0] / np.maximum(sums[..., 1], 1)
    return score


def read_items(run: Run, split: str, part: str) -> Items | None:
    """Counts of each item from the predictions of a run, which have a line an item below a heading."""
    lines = (run.predictions / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    heading = lines[0].split("\t")
    predicted, label, parts = (heading.index(name) for name in ("predicted", "label", "part"))
    rows = [row for row in (line.split("\t") for line in lines[1:]) if not part or row[parts] == part]
    labels = [row[label] for row in rows]
    rare = min(sorted(set(labels)), key=labels.count)
    counts = [[row[predicted] == row[label] == rare, row[label] == rare] for row in rows]
    return Items(np.array(counts, dtype=np.float64), checksum(labels))


MY_METRIC = Metric(
    "my-metric",
    "My metric",
    "%",
    margin=1.0,
    measure=measure,
    read_items=read_items,
    floors=("majority",),
    tasks=("sva", "nli"),
)

METRICS.add("my-metric", MY_METRIC)
