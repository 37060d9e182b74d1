"""Counts that each parsed sentence adds to the attachment scores."""

from phmrun.config import load_run_config
from phmrun.engine.preparation import build_data
from phmrun.ledger import Run
from phmrun.metrics.items import Items, checksum
from phmrun.metrics.parsing import sentence_counts
from phmrun.text import conllu


def read_items(run: Run, split: str, part: str) -> Items | None:
    """Return words, correct heads and correct arcs of each sentence.

    The result is ``None`` for a part. The run's predictions are compared with the trees of its data, with its settings
    for subtypes and punctuation.

    Raises:
        PhmrunError: (exit 3) The predictions or the data are missing, or differ in their words.
    """
    if part:
        return None
    config = load_run_config(run.config_path)
    parsed = conllu.load(run.predictions / f"{split}.conllu")
    decoding = config.decoding  # type: ignore[attr-defined]
    gold = build_data(config).sentences(split)  # type: ignore[attr-defined]
    counts = sentence_counts(gold, parsed, decoding.subtypes, decoding.punctuation)
    return Items(counts, checksum([conllu.dumps(gold)]))
