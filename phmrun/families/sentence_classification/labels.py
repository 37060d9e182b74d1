"""Correctness of the labels predicted by a finished run, per item."""

import numpy as np

from phmrun.files import read_text
from phmrun.ledger import Run
from phmrun.metrics.items import Items, checksum


def read_items(run: Run, split: str, part: str) -> Items:
    """Return correctness counts of a split's items, or of a part of it.

    Counts are ``[items, 2]``: 1 if the label is correct, else 0, and 1. ``part`` of "" is the whole split. Predictions
    come from the run's directory. The checksum covers the gold labels and parts; the split's fingerprint is added.
    """
    lines = read_text(run.predictions / f"{split}.tsv").splitlines()
    heading = lines[0].split("\t")
    predicted, gold, parts = (heading.index(name) for name in ("predicted", "label", "part"))
    rows = [row for row in (line.split("\t") for line in lines[1:]) if not part or row[parts] == part]
    counts = np.ones((len(rows), 2))
    counts[:, 0] = [row[predicted] == row[gold] for row in rows]
    file = run.fingerprints().get(split, "")  # gold labels alone do not identify the items
    return Items(counts, checksum([row[gold] + "\t" + row[parts] for row in rows]), file)
