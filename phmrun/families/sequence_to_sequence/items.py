"""BLEU counts of the translations of a finished run, per sentence."""

from collections.abc import Mapping
from pathlib import Path

from phmrun.config import load_run_config
from phmrun.engine.experiment import build_data
from phmrun.ledger import Run
from phmrun.metrics.items import Items, checksum
from phmrun.metrics.translation import bleu_counts
from phmrun.text.lines import read_parallel


def read_items(run: Run, split: str, part: str) -> Items | None:
    """Return the BLEU counts of each translation of a split.

    Predictions come from the run, references from its data. Only items of ``part`` count; "" is the whole split. The
    checksum is that of these references.

    Returns:
        The counts; None if the data have no parts for this split.
    """
    outputs = (run.predictions / f"{split}.txt").read_text(encoding="utf-8").split("\n")[:-1]
    data = build_data(load_run_config(run.config_path))
    references = [target for _, target in read_parallel(*data.files[split])]
    if part:
        parts: Mapping[str, Path] = data.parts  # type: ignore[attr-defined]
        if split not in parts:
            return None
        names = parts[split].read_text(encoding="utf-8").split("\n")[: len(outputs)]
        kept = [row for row, name in enumerate(names) if name == part]
        outputs, references = [outputs[row] for row in kept], [references[row] for row in kept]
    return Items(bleu_counts(outputs, references), checksum(references))
