"""Where the running text of an experiment comes from: the built-in corpus, a dataset, the user's files."""

from pathlib import Path

from phmrun.datasets import builtin, checksums, locate
from phmrun.datasets.own_files import SPLITS, own_files
from phmrun.files import sha256_of
from phmrun.tasks.lm.config import LanguageModelExperiment, StreamDataConfig
from phmrun.tasks.lm.preparation import StreamSettings
from phmrun.tasks.lm.streams import StreamData
from phmrun.text.division import held_out

Files = dict[str, Path]


def build_data(config: LanguageModelExperiment, cache: Path) -> StreamData:
    """The data module of an experiment.

    Args:
        config: The resolved config.
        cache: Directory of prepared corpora.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    files, fingerprints = corpus(config.data, cache)
    if config.data.hold_out:
        (train,), (dev,) = held_out((files["train"],), config.data.hold_out, cache, running=True)
        files = {**files, "train": train, "dev": dev}
    vocabulary = config.data.vocabulary
    return StreamData(
        files,
        fingerprints,
        StreamSettings(vocabulary.size, vocabulary.multiple_of, config.data.split_at),
        streams=config.batch.size,
        length=config.batch.length,
        random_length=config.batch.random_length,
        evaluation_streams=config.decoding.streams,
        evaluation_length=config.evaluation_length,
        accumulate=config.training.accumulate,
        seed=config.seed,
        workers=config.hardware.workers,
        cache=cache,
    )


def corpus(data: StreamDataConfig, cache: Path) -> tuple[Files, dict[str, str]]:
    """Text by split, and the checksums that identify it.

    Raises:
        PhmrunError: (exit 3) It is not on this machine.
    """
    if data.name == "builtin":
        return builtin_text(cache, data.language), {"builtin": builtin.VERSIONS["translation"]}
    if data.name == "files":
        given = own_files(train=data.train, dev=data.dev, test=data.test)
        files = {split: path for split, (path,) in given.items()}
        return files, {split: sha256_of(path) for split, path in files.items()}
    located = locate(data.name)
    return {split: next(iter(roles.values())) for split, roles in located.items()}, checksums(data.name)


def builtin_text(cache: Path, language: str) -> Files:
    """One side of the sentence pairs that come with phmrun."""
    directory = builtin.unpack("translation", cache)
    return {split: directory / f"{split}.{language}" for split in SPLITS}
