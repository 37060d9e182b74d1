"""Where the sentence pairs of a style transfer experiment come from."""

from pathlib import Path

from phmrun.config.sequences import ParallelDataConfig
from phmrun.datasets import builtin
from phmrun.training.corpora import SPLITS, ParallelCorpus, build_parallel_data, require_languages
from phmrun.training.parallel import ParallelData
from tasks.style.config import StyleExperiment

CORPUS_SEED = 1
"""Seed of the built-in corpus; the experiment's seed varies the training, not the data."""
STYLES = ("modern", "original")


def build_data(config: StyleExperiment, cache: Path) -> ParallelData:
    """The data module of an experiment.

    Args:
        config: The resolved config.
        cache: Directory of prepared corpora.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    return build_parallel_data(config, cache, builtin_corpus)


def builtin_corpus(data: ParallelDataConfig, cache: Path) -> ParallelCorpus:
    """The generated corpus, written on first use."""
    require_languages(data, STYLES)
    directory = cache / f"builtin-style-{builtin.VERSION}-{CORPUS_SEED}"
    files = {split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS}
    if not all(path.is_file() for pair in files.values() for path in pair):
        builtin.write_style(directory, CORPUS_SEED)
    return ParallelCorpus(files, {"builtin": f"{builtin.VERSION}-{CORPUS_SEED}"})
