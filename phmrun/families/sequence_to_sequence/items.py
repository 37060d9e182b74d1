"""Counts of the translations of a finished run, per sentence."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

from phmrun.config import load_run_config
from phmrun.engine.data import build_data
from phmrun.families.sequence_to_sequence.config import SequenceToSequenceExperiment
from phmrun.files import read_regular
from phmrun.ledger import Run
from phmrun.metrics import bleu_obstacle
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.items import Items, checksum
from phmrun.text.lines import read_parallel, rows_of_parts


def read_items(
    run: Run, split: str, part: str, counted: Callable[..., Counts], *, tokenized: bool = False
) -> Items | None:
    """Return the counts of each translation of a split.

    Predictions come from the run, references from its data. Only items of ``part`` count; "" is the whole split. The
    checksum is that of these references. ``counted`` returns the counts of outputs and references; ``tokenized``
    passes it the run's tokenizer.

    Returns:
        The counts; None if the data have no such split or part, or if the tokenizer has an obstacle.
    """
    outputs = read_outputs(run, split)
    config = cast(SequenceToSequenceExperiment, load_run_config(run.config_path))
    data = build_data(config)
    if split not in data.files:  # of other settings, or another file
        return None
    references = [target for _, target in read_parallel(*data.files[split])]
    options = {"tokenizer": config.tokenizer} if tokenized else {}
    if tokenized and bleu_obstacle(config.tokenizer, references):
        return None
    if part:
        parts: Mapping[str, Path] = data.parts  # type: ignore[attr-defined]
        if split not in parts:
            return None
        kept = dict(rows_of_parts(parts[split], len(outputs))).get(part, [])
        outputs, references = [outputs[row] for row in kept], [references[row] for row in kept]
    return Items(counted(outputs, references, **options), checksum(references))


def read_outputs(run: Run, split: str) -> list[str]:
    """Return the stored translations of a split, which may have a CR in them.

    Raises:
        OSError: There are none.
    """
    return read_regular(run.predictions / f"{split}.txt").decode().split("\n")[:-1]
