"""Data of style transfer."""

import hashlib
from functools import partial
from pathlib import Path

from phmrun.datasets import SPLITS, builtin
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig
from phmrun.families.sequence_to_sequence.data import (
    ParallelCorpus,
    ParallelData,
    build_parallel_data,
    require_languages,
)
from phmrun.files import replacing, sha256_of
from phmrun.tasks.style.config import StyleExperiment
from phmrun.tasks.style.measures import measures
from phmrun.text.lines import read_parallel

STYLES = ("modern", "original")


def build_data(config: StyleExperiment, cache: Path) -> ParallelData:
    """Build the data module of an experiment.

    Prepared corpora are in ``cache``. With training data, its outputs are also measured by
    :func:`~phmrun.tasks.style.measures.measures`, and ``data.copies`` are added to it. The measures learn from pairs
    without copies.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    data = build_parallel_data(config, cache, builtin_corpus)
    if "train" in data.files:
        data.measures = dict(measures(partial(read_parallel, *data.files["train"])))
    if config.data.copies and "train" in data.files:
        data.files["train"] = with_copies(data.files["train"], config.data.copies, cache)
    return data


def builtin_corpus(data: ParallelDataConfig, cache: Path) -> ParallelCorpus:
    """Return the built-in corpus, unpacked into ``cache``, with test parts.

    Raises:
        PhmrunError: (exit 2) The sides are not modern and original, in either direction.
    """
    require_languages(data, STYLES)
    directory = builtin.unpack("style", cache)
    files = {split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS}
    return ParallelCorpus(files, {"builtin": builtin.VERSIONS["style"]}, parts={"test": directory / "test.part"})


def with_copies(pair: tuple[Path, Path], times: int, cache: Path) -> tuple[Path, Path]:
    """Return training files with added copies.

    They are written to ``cache`` on first use. After each pair, its target sentence follows ``times`` times with itself
    as the source.

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
