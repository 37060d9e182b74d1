"""Where the sentence pairs of a sequence-to-sequence experiment come from: built-in, a dataset, the user's files."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phmrun.datasets import checksums, locate
from phmrun.datasets.own_files import SPLITS
from phmrun.errors import ExitCode, PhmrunError
from phmrun.families.sequence_to_sequence.config import ParallelDataConfig, SequenceToSequenceExperiment
from phmrun.families.sequence_to_sequence.data import Baseline, ParallelData
from phmrun.files import sha256_of
from phmrun.text.division import held_out, without_empty
from phmrun.text.vocabularies import Vocabularies

Files = dict[str, tuple[Path, Path]]

LOG = logging.getLogger("phmrun.engine")


@dataclass(frozen=True)
class ParallelCorpus:
    """Sentence pairs on this machine.

    Attributes:
        files: (source, target) by split.
        fingerprints: Checksums that identify them.
        parts: By split, the file that says which part each line belongs to.
        baselines: Outputs that need no model, by name.
    """

    files: Files
    fingerprints: dict[str, str]
    parts: Mapping[str, Path] = field(default_factory=dict)
    baselines: Mapping[str, Baseline] = field(default_factory=dict)


Builtin = Callable[[ParallelDataConfig, Path], ParallelCorpus]
"""Writes the task's built-in corpus below a cache directory, unless it is there."""


def build_parallel_data(config: SequenceToSequenceExperiment, cache: Path, builtin: Builtin) -> ParallelData:
    """The data module of an experiment.

    Args:
        config: The resolved config.
        cache: Directory of prepared corpora.
        builtin: Finds the task's built-in corpus.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    found = corpus(config.data, cache, builtin)
    files = found.files
    if config.data.empty == "drop":
        files = {split: without_empty(pair, cache) for split, pair in files.items()}
    if config.data.hold_out:
        train, dev = held_out(files["train"], config.data.hold_out, cache)
        files = {**files, "train": train, "dev": dev}
    vocabulary = config.data.vocabulary
    return ParallelData(
        files,
        found.fingerprints,
        parts=found.parts,
        baselines=found.baselines,
        kind=vocabulary.kind,
        vocabulary_size=vocabulary.size,
        target_size=vocabulary.target_size,
        joint=vocabulary.joint,
        multiple_of=vocabulary.multiple_of,
        vocabularies=Vocabularies.load(vocabulary.path) if vocabulary.path else None,
        max_length=config.data.max_length,
        unit=config.batch.unit,
        batch_size=config.batch.size,
        accumulate=config.training.accumulate,
        seed=config.seed,
        workers=config.hardware.workers,
        cache=cache,
    )


def corpus(data: ParallelDataConfig, cache: Path, builtin: Builtin) -> ParallelCorpus:
    """The corpus that a data section names.

    Raises:
        PhmrunError: It is not on this machine (exit 3), or lacks one of the languages (exit 2).
    """
    if data.name == "builtin":
        return builtin(data, cache)
    if data.name == "files":
        files = own_files(data)
        sums = {f"{split}.{side}": sha256_of(path) for split, pair in files.items() for side, path in _sides(pair)}
        for split in files:
            if sums[f"{split}.source"] == sums[f"{split}.target"]:
                LOG.warning("%s: source and target have the same content: %s", split, files[split][0])
        return ParallelCorpus(files, sums)
    located = locate(data.name)
    require_languages(data, tuple(located["train"]))
    return ParallelCorpus(
        {split: (roles[data.source], roles[data.target]) for split, roles in located.items()}, checksums(data.name)
    )


def own_files(data: ParallelDataConfig) -> Files:
    """The user's own files, named one by one or by their common prefix.

    Raises:
        PhmrunError: (exit 3) One of them does not exist; only the two of the test set may both be missing.
    """
    files: Files = {}
    for split in SPLITS:
        source = _file(data, split, "source", data.source)
        target = _file(data, split, "target", data.target)
        if split == "dev" and data.hold_out:
            continue
        if source and target:
            files[split] = (source, target)
        elif source or target:
            raise PhmrunError(f"the {split} set has one side only", where=str(source or target), code=ExitCode.DATA)
    return files


def _file(data: ParallelDataConfig, split: str, side: str, language: str) -> Path | None:
    """One file of the user's; ``None`` where there is no such set."""
    key = f"{split}_{side}"
    given: Path | None = getattr(data, key)
    if data.prefix:
        candidates = [Path(f"{data.prefix}{split}.{language}{ending}") for ending in ("", ".gz")]
    else:
        candidates = [given] if given else []
    for path in candidates:
        if path.is_file():
            return path
    optional = split == "test" or (split == "dev" and data.hold_out)
    if not candidates or (optional and data.prefix):
        return None
    raise PhmrunError(
        f"the {split} file does not exist: {' or '.join(str(path) for path in candidates)}",
        where="data.prefix" if data.prefix else f"data.{key}",
        hint="Name the files with --train-src, --train-tgt, --dev-src, --dev-tgt, or with --prefix.",
        code=ExitCode.DATA,
    )


def _sides(pair: tuple[Path, Path]) -> list[tuple[str, Path]]:
    return [("source", pair[0]), ("target", pair[1])]


def require_languages(data: ParallelDataConfig, languages: tuple[str, ...]) -> None:
    """Refuses languages that a corpus does not have.

    Raises:
        PhmrunError: (exit 2) Naming those it has.
    """
    for key in ("source", "target"):
        if getattr(data, key) not in languages:
            raise PhmrunError(
                f"the dataset {data.name!r} has no language {getattr(data, key)!r}",
                where=f"data.{key}",
                valid=languages,
            )
