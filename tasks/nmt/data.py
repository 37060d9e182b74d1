"""Where the sentence pairs of a translation experiment come from."""

from pathlib import Path

from phmrun.datasets import SPLITS, builtin
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig
from phmrun.families.sequence_to_sequence.data import (
    ParallelCorpus,
    ParallelData,
    build_parallel_data,
    require_languages,
)
from phmrun.tasks.nmt.baseline import dictionary_baseline
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.lines import read_parallel


def build_data(config: TranslationExperiment, cache: Path) -> ParallelData:
    """The data module of an experiment, with its prepared corpora in ``cache``.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    return build_parallel_data(config, cache, builtin_corpus)


def builtin_corpus(data: ParallelDataConfig, cache: Path) -> ParallelCorpus:
    """The corpus that comes with phmrun, with translation by a dictionary as its baseline."""
    require_languages(data, ("en", "de"))
    directory = builtin.unpack("translation", cache)
    files = {split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS}
    return ParallelCorpus(
        files,
        {"builtin": builtin.VERSIONS["translation"]},
        parts={"test": directory / "test.part"},
        baselines={"dictionary": lambda sources: dictionary_baseline(read_parallel(*files["train"]), sources)},
    )
