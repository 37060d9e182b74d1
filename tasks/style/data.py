"""Data of style transfer."""

from functools import partial
from pathlib import Path
from typing import Any

from phmrun.datasets import SPLITS, builtin
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig
from phmrun.families.sequence_to_sequence.data import (
    ParallelCorpus,
    ParallelData,
    build_parallel_data,
    require_languages,
)
from phmrun.tasks.style.config import StyleExperiment
from phmrun.tasks.style.measures import measures
from phmrun.text.lines import read_parallel
from phmrun.text.store import build_once

STYLES = ("modern", "original")
COPIED = ("train.source", "train.target")


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

    They are in ``cache``, and written again if they are damaged. After each pair, its target sentence follows ``times``
    times with itself as the source.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed.
    """

    def write(directory: Path) -> dict[str, Any]:
        """Write both files, and return no facts."""
        for side, name in enumerate(COPIED):
            with (directory / name).open("w", encoding="utf-8") as handle:
                for sides in read_parallel(*pair):
                    handle.write("".join(f"{sentence}\n" for sentence in (sides[side], *[sides[1]] * times)))
        return {}

    directory, _ = build_once(cache, {"kind": "copies", "files": list(pair), "times": times}, write)
    return directory / COPIED[0], directory / COPIED[1]
