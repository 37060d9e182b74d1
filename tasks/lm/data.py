"""Where the running text of an experiment comes from: the built-in corpus, a dataset, the user's files."""

from itertools import islice
from pathlib import Path

from phmrun.datasets import SPLITS, builtin, checksums, locate, own_files
from phmrun.files import sha256_of
from phmrun.tasks.lm.config import LanguageModelExperiment, StreamDataConfig
from phmrun.tasks.lm.preparation import LONGEST_LINE, StreamSettings
from phmrun.tasks.lm.streams import StreamData
from phmrun.text.division import held_out
from phmrun.text.lines import numbered_lines

Files = dict[str, Path]
LINES, ATTACHED = 2000, 0.01
"""So many lines are looked at; raw text has more than this share of words with a mark at their end, such as a comma."""
RAREST = 2
"""Words of raw text that training has less often are unknown: else the model would never learn what unknown is."""


def build_data(config: LanguageModelExperiment, cache: Path) -> StreamData:
    """The data module of an experiment, with its prepared corpora in ``cache``.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    files, fingerprints = corpus(config.data, cache)
    if config.data.hold_out:
        (train,), (dev,) = held_out((files["train"],), config.data.hold_out, cache, running=True)
        files = {**files, "train": train, "dev": dev}
    settings = stream_settings(config.data, files)
    if config.data.name == "files" and settings.splitting != config.data.split_at:
        fingerprints = {**fingerprints, "words": f"{settings.splitting}, from {settings.min_frequency} on"}
    return StreamData(
        files,
        fingerprints,
        settings,
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


def stream_settings(data: StreamDataConfig, files: Files) -> StreamSettings:
    """How the text becomes words; raw text of the user's is split at punctuation, and its rare words are unknown."""
    words = data.vocabulary
    raw = data.name == "files" and data.splitting == "auto" and "train" in files and is_raw(files["train"])
    rarest = words.min_frequency or (RAREST if raw else 1)
    return StreamSettings(words.size, words.multiple_of, "punctuation" if raw else data.split_at, rarest)


def is_raw(path: Path) -> bool:
    """Whether marks are attached to the words of a text, told from its first lines."""
    words = [word for _, line in islice(numbered_lines(path, longest=LONGEST_LINE), LINES) for word in line.split()]
    attached = sum(len(word) > 1 and word[-1] in ",;:!?" and word[-2].isalnum() for word in words)
    return attached > ATTACHED * len(words)


def corpus(data: StreamDataConfig, cache: Path) -> tuple[Files, dict[str, str]]:
    """Text by split, and the checksums that identify it.

    Raises:
        PhmrunError: (exit 3) It is not on this machine.
    """
    if data.name == "builtin":
        directory = builtin.unpack("translation", cache)
        files = {split: directory / f"{split}.{data.language}" for split in SPLITS}
        return files, {"builtin": builtin.VERSIONS["translation"]}
    if data.name == "files":
        given = own_files(train=data.train, dev=data.dev, test=data.test)
        files = {split: path for split, (path,) in given.items()}
        return files, {split: sha256_of(path) for split, path in files.items()}
    located = locate(data.name)
    return {split: next(iter(roles.values())) for split, roles in located.items()}, checksums(data.name)
