"""Where the sentence pairs of a translation experiment come from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from phmrun.datasets import builtin
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig
from phmrun.families.sequence_to_sequence.corpus import SPLITS, ParallelCorpus, build_parallel_data, require_languages
from phmrun.families.sequence_to_sequence.data import ParallelData
from phmrun.tasks.nmt.config import TranslationExperiment
from phmrun.text.parallel import read_parallel

CORPUS_SEED = 1
"""Seed of the built-in corpus; the experiment's seed varies the training, not the data."""


def build_data(config: TranslationExperiment, cache: Path) -> ParallelData:
    """The data module of an experiment.

    Args:
        config: The resolved config.
        cache: Directory of prepared corpora.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    return build_parallel_data(config, cache, builtin_corpus)


def builtin_corpus(data: ParallelDataConfig, cache: Path) -> ParallelCorpus:
    """The generated corpus, written on first use, with translation by a dictionary as its baseline."""
    require_languages(data, ("en", "de"))
    directory = cache / f"builtin-translation-{builtin.VERSION}-{CORPUS_SEED}"
    if not (directory / "test.part").is_file():
        builtin.write_translation(directory, CORPUS_SEED)
    files = {split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS}
    return ParallelCorpus(
        files,
        {"builtin": f"{builtin.VERSION}-{CORPUS_SEED}"},
        parts={"test": directory / "test.part"},
        baselines={"dictionary": partial(word_by_word, files["train"])},
    )


def word_by_word(train: tuple[Path, Path], sources: Sequence[str]) -> list[str]:
    """Translations by a dictionary learned from the training pairs, word by word in the source's order."""
    return builtin.dictionary_baseline(read_parallel(*train), sources)
