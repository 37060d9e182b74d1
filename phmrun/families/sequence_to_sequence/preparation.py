"""Preparation of parallel text: vocabularies and token stores; see :mod:`phmrun.text.store`."""

import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.engine.data import contents
from phmrun.errors import counted, data_error
from phmrun.families.sequence_to_sequence.config import VocabularyConfig
from phmrun.progress import note, progress
from phmrun.text.lines import read_parallel
from phmrun.text.store import TRAIN, ParallelStore, Prepared, TokenStoreWriter, prepare
from phmrun.text.vocabularies import Vocabularies, train_vocabulary
from phmrun.text.vocabulary import RESERVED, RESERVED_BY_SUBWORDS

VERSION = 2
"""Version of the format; increase it when the same text and settings result in other ids or another layout."""
CHUNK = 1024
"""Sentence pairs encoded at a time."""
SAMPLE = {"unigram": 28_000_000, "bpe": 100_000_000}
"""Largest number of characters of both sides for learning a subword vocabulary, by its kind, in evenly spaced pairs.

SentencePiece keeps them in memory: 21 bytes for each, or 4 for "bpe", so that preparation takes less than 1 GB.
"""
NOISY = 1_000_000
"""Number of pairs from which the rarest 0.01 % of characters are left out of the alphabet: web text is noisy."""


DEFAULT = VocabularyConfig()


def prepare_parallel(
    files: Mapping[str, tuple[Path, Path]],
    settings: VocabularyConfig = DEFAULT,
    *,
    max_length: int = 256,
    cache: Path,
    vocabularies: Vocabularies | None = None,
) -> Prepared[Vocabularies, ParallelStore]:
    """Return a parallel corpus, encoded with its vocabularies.

    Its text is checked, vocabularies are learned and the pairs encoded, unless ``cache`` has the result for the same
    content. Memory does not grow with the corpus. A second process with the same corpus waits for the first.

    Args:
        files: (source, target) files by split, ``train`` among them unless ``vocabularies`` are passed.
        settings: Settings of the vocabularies.
        max_length: Pairs of ``train`` with more tokens on a side are left out and counted; other splits keep all.
        cache: Directory of prepared corpora.
        vocabularies: Vocabularies to use instead of learning them, such as those of a finished run.

    Raises:
        PhmrunError: A file is missing or malformed (exit 3), or a setting is out of range (exit 2).
    """
    described: dict[str, Any] = settings.model_dump(exclude={"path"}, exclude_none=True)
    if vocabularies is not None:
        described = {"kind": "given", "size": 0, "joint": vocabularies.joint, "multiple_of": 1}
    # The name in the cache is a hash of everything that the result depends on.
    content = {
        "version": VERSION,
        "files": dict(files),
        "settings": {**described, "min_frequency": 1},
        "max_length": max_length,
        "vocabularies": contents(vocabularies) if vocabularies else None,
        "sentencepiece": version("sentencepiece"),
    }
    sizes: dict[str, _Measured] = {}
    reserved = RESERVED if described["kind"] == "word" else RESERVED_BY_SUBWORDS

    def learn() -> Vocabularies:
        """Check all text, then return the vocabularies that were passed or learned.

        So a fault in the last line shows before the long work.
        """
        sizes.update({split: _measure(split, *sides, reserved) for split, sides in files.items()})
        return vocabularies or _learn(files[TRAIN], sizes[TRAIN], settings)

    def encode(split: str, vocabularies: Vocabularies, path: Path) -> dict[str, Any]:
        """Write a split's stores below ``path``, and return its statistics."""
        measured = sizes[split]
        counts = _encode(split, files[split], measured.pairs, vocabularies, max_length, path)
        return {**counts, "reserved": measured.reserved} if measured.reserved else counts

    making: dict[str, Any] = {"learn": learn, "encode": encode, "describe": _described}
    return prepare(cache, content, files, kind=Vocabularies, store=ParallelStore, **making)


class _Measured(NamedTuple):
    """Sizes of a split: its pairs, the characters of both sides, and the pairs with reserved ones."""

    pairs: int
    characters: int
    reserved: int


def _measure(split: str, source: Path, target: Path, pattern: re.Pattern[str]) -> _Measured:
    """Return the sizes of a split; ``pattern`` finds reserved characters and words.

    Progress is shown.

    Raises:
        PhmrunError: (exit 3) The text is malformed.
    """
    pairs = characters = reserved = 0
    with progress(f"checking {split}", None, "sentences") as advance:
        for left, right in read_parallel(source, target):
            pairs += 1
            characters += len(left) + len(right)
            reserved += bool(pattern.search(left) or pattern.search(right))
            if not pairs % CHUNK:
                advance(CHUNK)
    return _Measured(pairs, characters, reserved)


def _learn(sides: tuple[Path, Path], measured: _Measured, settings: VocabularyConfig) -> Vocabularies:
    """Return vocabularies learned from the training split.

    Words come from all pairs, subwords from an evenly spaced sample (``SAMPLE``). Notes tell so.
    From 1,000,000 pairs on, subwords cover 99.99 % of the characters, else all. Joint vocabularies come from both sides
    and are one object.

    Args:
        sides: Source and target file.
        measured: Sizes of the split.
        settings: Settings of the vocabularies.
    """
    pairs, characters, _ = measured
    most = SAMPLE.get(settings.kind, characters)
    sample = max(1, pairs * most // characters) if characters > most else pairs
    coverage = 0.9999 if pairs >= NOISY else 1.0
    if sample < pairs:
        note(f"the subword vocabulary is learned from {sample:,} of {pairs:,} sentence pairs, evenly spaced")

    def lines(*columns: int) -> Iterator[str]:
        """Yield the sampled sentences of these sides (0: source, 1: target)."""
        with progress("reading text for the vocabulary", pairs, "sentences") as advance:
            for number, pair in enumerate(read_parallel(*sides)):
                # True for ``sample`` of the pairs, evenly spaced.
                if (number + 1) * sample // pairs > number * sample // pairs:
                    yield from (pair[column] for column in columns)
                advance(1)

    def train(*columns: int, size: int = settings.size) -> Any:
        """Return the vocabulary of these sides.

        A note says if it is smaller than ``size``.
        """
        vocabulary = train_vocabulary(
            lines(*columns),
            kind=settings.kind,
            size=size,
            multiple_of=settings.multiple_of,
            character_coverage=coverage,
        )
        if vocabulary.entries < size:
            note(f"the text allows a vocabulary of {vocabulary.entries:,} entries, not {size:,}")
        return vocabulary

    if settings.joint:
        both = train(0, 1)
        return Vocabularies(both, both)
    return Vocabularies(train(0), train(1, size=settings.target_size or settings.size))


def _encode(
    split: str, sides: tuple[Path, Path], pairs: int, vocabularies: Vocabularies, max_length: int, path: Path
) -> dict[str, Any]:
    """Write a split to its two stores, chunk by chunk.

    Pairs of the training split with more than ``max_length`` tokens on a side are left out; other splits keep all.

    Returns:
        "sentences" (pairs written), "dropped" (pairs left out), and statistics of "source" and "target".

    Raises:
        PhmrunError: (exit 3) No pair is left.
    """
    kept = dropped = 0
    text = read_parallel(*sides)
    with (
        progress(f"encoding {split}", pairs, "sentences") as advance,
        TokenStoreWriter(path / "source", vocabulary_size=len(vocabularies.source)) as sources,
        TokenStoreWriter(path / "target", vocabulary_size=len(vocabularies.target)) as targets,
    ):
        while chunk := list(islice(text, CHUNK)):
            left = vocabularies.source.encode_all([source for source, _ in chunk])
            right = vocabularies.target.encode_all([target for _, target in chunk])
            for source, target in zip(left, right, strict=True):
                # Scored splits keep long pairs: leaving them out would raise the score.
                if split == TRAIN and max(len(source), len(target)) > max_length:
                    dropped += 1
                    continue
                sources.append(source)
                targets.append(target)
                kept += 1
            advance(len(chunk))
    if not kept:
        what = f"no pair of {split!r} has at most {counted(max_length, 'token')} on both sides"
        raise data_error(what, "data.max_length")
    return {"sentences": kept, "dropped": dropped, "source": sources.statistics(), "target": targets.statistics()}


def _described(vocabularies: Vocabularies) -> dict[str, Any]:
    """Return kind and sizes of the vocabularies for statistics.

    Keys: "kind" (of the source), "joint", and for "source" and "target" each a dictionary: "size" (padded), "entries"
    and "requested".
    """
    sizes = {
        side: {"size": len(vocabulary), "entries": vocabulary.entries, "requested": vocabulary.requested}
        for side, vocabulary in (("source", vocabularies.source), ("target", vocabularies.target))
    }
    return {"kind": vocabularies.source.kind, "joint": vocabularies.joint, **sizes}
