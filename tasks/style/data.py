"""Where the sentence pairs of a style transfer experiment come from."""

import hashlib
from pathlib import Path

from phmrun.datasets import builtin
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig
from phmrun.families.sequence_to_sequence.corpus import SPLITS, ParallelCorpus, build_parallel_data, require_languages
from phmrun.families.sequence_to_sequence.data import ParallelData
from phmrun.files import replacing, sha256_of
from phmrun.tasks.style.config import StyleExperiment
from phmrun.text.parallel import read_parallel

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
    data = build_parallel_data(config, cache, builtin_corpus)
    if config.data.copies:
        data.files["train"] = with_copies(data.files["train"], config.data.copies, cache)
    return data


def builtin_corpus(data: ParallelDataConfig, cache: Path) -> ParallelCorpus:
    """The generated corpus, written on first use."""
    require_languages(data, STYLES)
    directory = cache / f"builtin-style-{builtin.STYLE_VERSION}-{CORPUS_SEED}"
    files = {split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS}
    part = directory / "test.part"
    if not all(path.is_file() for path in (part, *(path for pair in files.values() for path in pair))):
        builtin.write_style(directory, CORPUS_SEED)
    return ParallelCorpus(files, {"builtin": f"{builtin.STYLE_VERSION}-{CORPUS_SEED}"}, parts={"test": part})


def with_copies(pair: tuple[Path, Path], times: int, cache: Path) -> tuple[Path, Path]:
    """Training files in which each target sentence follows as its own source, so many times; written on first use.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """
    content = "-".join([*(sha256_of(path) for path in pair), str(times)])
    directory = cache / f"copies-{hashlib.sha256(content.encode()).hexdigest()[:16]}"
    copied = directory / "train.source", directory / "train.target"
    for side, path in enumerate(copied):
        if path.is_file():
            continue
        with replacing(path) as temporary, temporary.open("w", encoding="utf-8") as handle:
            for sides in read_parallel(*pair):
                handle.write("".join(f"{sentence}\n" for sentence in (sides[side], *[sides[1]] * times)))
    return copied
