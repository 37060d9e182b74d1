"""Where the sentence pairs of a translation experiment come from."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from phmrun.datasets import builtin, checksums, locate
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of
from phmrun.text.parallel import read_parallel
from phmrun.training.parallel import ParallelData
from tasks.nmt.config import TranslationDataConfig, TranslationExperiment

CORPUS_SEED = 1
"""Seed of the built-in corpus; the experiment's seed varies the training, not the data."""
SPLITS = ("train", "dev", "test")

Files = dict[str, tuple[Path, Path]]


def build_data(config: TranslationExperiment, cache: Path) -> ParallelData:
    """The data module of an experiment.

    Args:
        config: The resolved config.
        cache: Directory of prepared corpora.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    files, fingerprints, parts = corpus(config.data, cache)
    vocabulary = config.data.vocabulary
    return ParallelData(
        files,
        fingerprints,
        parts=parts,
        baselines={"dictionary": partial(word_by_word, files["train"])} if config.data.name == "builtin" else {},
        kind=vocabulary.kind,
        vocabulary_size=vocabulary.size,
        joint=vocabulary.joint,
        multiple_of=vocabulary.multiple_of,
        max_length=config.data.max_length,
        unit=config.batch.unit,
        batch_size=config.batch.size,
        accumulate=config.training.accumulate,
        seed=config.seed,
        workers=config.hardware.workers,
        cache=cache,
    )


def corpus(data: TranslationDataConfig, cache: Path) -> tuple[Files, dict[str, str], dict[str, Path]]:
    """Files by split, checksums by name, and by split the file that says which part each line belongs to."""
    if data.name == "builtin":
        directory = builtin_corpus(cache)
        files = {
            split: (directory / f"{split}.{data.source}", directory / f"{split}.{data.target}") for split in SPLITS
        }
        _require_languages(data, ("en", "de"))
        return files, {"builtin": f"{builtin.VERSION}-{CORPUS_SEED}"}, {"test": directory / "test.part"}
    if data.name == "files":
        files = own_files(data)
        sums = {f"{split}.{side}": sha256_of(path) for split, pair in files.items() for side, path in _sides(pair)}
        return files, sums, {}
    located = locate(data.name)
    _require_languages(data, tuple(located["train"]))
    return (
        {split: (roles[data.source], roles[data.target]) for split, roles in located.items()},
        checksums(data.name),
        {},
    )


def word_by_word(train: tuple[Path, Path], sources: Sequence[str]) -> list[str]:
    """Translations by a dictionary learned from the training pairs, word by word in the source's order."""
    return builtin.dictionary_baseline(read_parallel(*train), sources)


def builtin_corpus(cache: Path) -> Path:
    """The directory of the generated corpus, written on first use."""
    directory = cache / f"builtin-translation-{builtin.VERSION}-{CORPUS_SEED}"
    if not (directory / "test.part").is_file():
        builtin.write_translation(directory, CORPUS_SEED)
    return directory


def own_files(data: TranslationDataConfig) -> Files:
    """The user's own files, named one by one or by their common prefix.

    Raises:
        PhmrunError: (exit 3) One of them does not exist; only the two of the test set may both be missing.
    """
    files: Files = {}
    for split in SPLITS:
        source = _file(data, split, "source", data.source)
        target = _file(data, split, "target", data.target)
        if source and target:
            files[split] = (source, target)
        elif source or target:
            raise PhmrunError(f"the {split} set has one side only", where=str(source or target), code=ExitCode.DATA)
    return files


def _file(data: TranslationDataConfig, split: str, side: str, language: str) -> Path | None:
    """One file of the user's; ``None`` where there is no test set."""
    key = f"{split}_{side}"
    given: Path | None = getattr(data, key)
    if data.prefix:
        candidates = [Path(f"{data.prefix}{split}.{language}{ending}") for ending in ("", ".gz")]
    else:
        candidates = [given] if given else []
    for path in candidates:
        if path.is_file():
            return path
    if split == "test" and (data.prefix or not given):
        return None
    raise PhmrunError(
        f"the {split} file does not exist: {' or '.join(str(path) for path in candidates)}",
        where="data.prefix" if data.prefix else f"data.{key}",
        hint="Name the files with --train-src, --train-tgt, --dev-src, --dev-tgt, or with --prefix.",
        code=ExitCode.DATA,
    )


def _sides(pair: tuple[Path, Path]) -> list[tuple[str, Path]]:
    return [("source", pair[0]), ("target", pair[1])]


def _require_languages(data: TranslationDataConfig, languages: tuple[str, ...]) -> None:
    for key in ("source", "target"):
        if getattr(data, key) not in languages:
            raise PhmrunError(
                f"the dataset {data.name!r} has no language {getattr(data, key)!r}",
                where=f"data.{key}",
                valid=languages,
            )
