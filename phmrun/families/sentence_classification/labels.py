"""Labels that a finished run gave, right or wrong, item by item."""

import numpy as np

from phmrun.ledger import Run
from phmrun.metrics.items import Items, checksum


def read_items(run: Run, split: str, part: str) -> Items:
    """Count of right labels, 0 or 1, and of items, 1, for each item of a split or of one part of it."""
    lines = (run.predictions / f"{split}.tsv").read_text(encoding="utf-8").splitlines()
    heading = lines[0].split("\t")
    predicted, gold, parts = (heading.index(name) for name in ("predicted", "label", "part"))
    rows = [row for row in (line.split("\t") for line in lines[1:]) if not part or row[parts] == part]
    counts = np.array([[row[predicted] == row[gold], 1] for row in rows], dtype=np.float64)
    file = run.fingerprints().get(split, "")  # where it is on record; the gold labels alone may be alike
    return Items(counts, checksum([row[gold] + "\t" + row[parts] for row in rows]), file)
