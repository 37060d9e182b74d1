"""Data of language modeling: corpora, and batches of parallel streams."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from phmrun.config import load_run_config
from phmrun.datasets import SPLITS, builtin, checksums, locate, own_texts
from phmrun.engine.data import DataModule, loader
from phmrun.engine.data import build_data as build_experiment_data
from phmrun.files import read_text
from phmrun.ledger import Run
from phmrun.metrics.bootstrap import Counts
from phmrun.metrics.items import Items, checksum
from phmrun.models.model_folder import folder_checksum, folder_tokenizer
from phmrun.tasks.lm.config import LanguageModelExperiment, StreamDataConfig
from phmrun.tasks.lm.preparation import StreamSettings, prepare_stream, text_lines
from phmrun.tasks.lm.segments import Segment, SegmentPlan, parts
from phmrun.tasks.lm.vocabulary import StreamVocabulary
from phmrun.text.division import held_out
from phmrun.text.lines import LONGEST_PARAGRAPH, numbered_lines
from phmrun.text.store import Prepared, StreamStore

KNOWN = "known"
MILLIBITS, WORDS, BYTES, CHARACTERS = range(4)
"""Columns of the counts of a line."""
Files = dict[str, Path]
LINES, ATTACHED = 2000, 0.01
"""Number of first lines inspected, and share of words with an attached mark above which text is untokenized."""
RAREST = 2
"""Minimum count of words in untokenized text; rarer ones train the unknown word."""


class StreamBatch(NamedTuple):
    """Segment of several streams."""

    tokens: Tensor  # words read, `[streams, length]`
    targets: Tensor  # the word after each of them, `[streams, length]`
    places: Tensor | None  # positions in the flattened `targets` to predict, `[units]`; `None`: all
    first: bool  # True at the beginning of the streams
    units: int  # number of predicted words
    window_units: int  # the same in the whole accumulation window, over all processes
    pace: float  # factor on the step's learning rate


class StreamBatches(Dataset[StreamBatch]):
    """Dataset of batches by :class:`Segment`; each process reads its own streams."""

    def __init__(self, store: StreamStore, plan: SegmentPlan, rank: int) -> None:
        self.store = store
        self.begins = [(rank * plan.streams + row) * plan.stream_length for row in range(plan.streams)]

    def __getitem__(self, segment: Segment) -> StreamBatch:
        start, length = segment.start, segment.length
        rows = [self.store.tokens[begin + start : begin + start + length + 1] for begin in self.begins]
        text = torch.from_numpy(np.stack(rows).astype(np.int64))
        units = length * len(rows)
        return StreamBatch(text[:, :-1], text[:, 1:], None, segment.first, units, segment.window_units, segment.pace)


def stream_batches(
    tokens: NDArray[Any], *, before: int, streams: int, length: int, rows: Callable[[int], range] = range
) -> Iterator[tuple[StreamBatch, NDArray[np.int64]]]:
    """Yield batches that predict each word of a text once.

    The text is split into equal parts that are read in parallel, each from an empty state.

    Args:
        tokens: The text ``[tokens]``.
        before: Word that stands before the text.
        streams: Number of parts.
        length: Words of each part per batch.
        rows: Function from the number of parts to those wanted; all by default.

    Yields:
        A batch, and the positions of its targets in the text, ``[units]`` in the order of the batch's ``places``.
    """
    bounds = parts(len(tokens), streams)
    bounds = [bounds[row] for row in rows(len(bounds))]
    longest = max((end - begin for begin, end in bounds), default=0)
    for start in range(0, longest, length):
        width = min(length, longest - start)
        text = np.full((len(bounds), width + 1), before, dtype=np.int64)
        # Parts may differ by a word: positions beyond a part's end stay -1 and are not predicted.
        places = np.full((len(bounds), width), -1, dtype=np.int64)
        for row, (begin, end) in enumerate(bounds):
            first, last = begin + start, min(begin + start + width, end)
            if first < last:
                text[row, 0] = tokens[first - 1] if first else before
                text[row, 1 : last - first + 1] = tokens[first:last]
                places[row, : last - first] = np.arange(first, last)
        wanted = np.flatnonzero(places.reshape(-1) >= 0)
        joined = torch.from_numpy(text)
        some = None if len(wanted) == places.size else torch.from_numpy(wanted)
        batch = StreamBatch(joined[:, :-1], joined[:, 1:], some, start == 0, len(wanted), window_units=1, pace=1.0)
        yield batch, places.reshape(-1)[wanted]


class StreamData(DataModule[StreamVocabulary]):
    """Running text, one file per split, encoded once and memory-mapped.

    Args:
        config: Resolved config.
        files: Text by split: "train", "dev" and any test sets.
        fingerprints: SHA-256 checksums that identify the text.
        settings: Tokenization settings.
        cache: Directory of prepared corpora.
    """

    unit = "words"

    def __init__(
        self,
        config: LanguageModelExperiment,
        files: Mapping[str, Path],
        fingerprints: Mapping[str, str],
        settings: StreamSettings,
        cache: Path,
    ) -> None:
        path, model = config.data.vocabulary.path, config.model.path
        self.given: Any = StreamVocabulary.load(path) if path else None  # of the user's, instead of a learned one
        if model is not None:
            self.given = folder_tokenizer(model, config.sizes[0])
            fingerprints = {**fingerprints, "model": folder_checksum(model)}
        if model is not None or settings.kind == "bpe":
            self.unit = "tokens"
        vocabulary = {} if self.given is None else {"vocabulary": self.given.sha256 if model else self.given.mark}
        super().__init__(files, {**fingerprints, **vocabulary})
        self.config, self.settings, self.cache = config, settings, cache

    @cached_property
    def prepared(self) -> Prepared[StreamVocabulary, StreamStore]:
        """Encoded text of training and validation, prepared on first use.

        The user's vocabulary is used if one is given; otherwise it is learned.
        """
        files = {split: self.files[split] for split in ("train", "dev")}
        return prepare_stream(files, self.settings, cache=self.cache, vocabulary=self.given)

    def prepare(self) -> None:
        """Encode the text unless it is cached.

        Raises:
            PhmrunError: (exit 3) A file is missing, malformed, or too short for the number of streams.
        """
        self.plan(1).check()

    def plan(self, world: int) -> SegmentPlan:
        """Return the segments of the training text for ``world`` processes."""
        batch, tokens = self.config.batch, len(self.prepared.stores["train"])
        shape = (tokens, batch.size, batch.length, batch.random_length)
        return SegmentPlan(*shape, self.config.seed, self.config.training.accumulate, world=world)

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Return the optimizer steps in this many epochs, rounded up.

        They are those of ``world`` processes.
        """
        return self.plan(world).steps_in_epochs(epochs)

    def inputs(self, split: str) -> Iterator[str]:
        """Return the non-blank lines of a split."""
        lines = numbered_lines(self.files[split], longest=LONGEST_PARAGRAPH)
        return (line for _, line in lines if line.strip())

    def train_dataloader(self) -> DataLoader[StreamBatch]:
        """Return an endless loader of training batches, starting after ``start_step`` steps."""
        rank, world = self.share
        plan = replace(self.plan(world), start_step=self.start_step)
        batches = StreamBatches(self.prepared.stores["train"], plan, rank)
        seed, workers = self.config.seed, self.config.hardware.workers
        return loader(plan, batches, seed=seed, workers=workers, pinned=self.pinned)

    def validation_batches(self) -> Iterable[StreamBatch]:
        """Return this process's share of the validation text.

        Of the parts of the text, process r of n reads the parts r, r + n, … in batches.
        """
        rank, world = self.share
        batches = stream_batches(
            self.prepared.stores["dev"].tokens,
            before=self.vocabulary.end,
            streams=self.config.decoding.streams,
            length=self.config.evaluation_length,
            rows=lambda count: range(rank, count, world),
        )
        return (batch for batch, _ in batches)


def build_data(config: LanguageModelExperiment, cache: Path) -> StreamData:
    """Build the data module of an experiment.

    Prepared corpora are in ``cache``. With ``hold_out``, the end of the training text is the validation text. A
    splitting that was detected from the text is part of the checksums. A vocabulary of the user's
    (``data.vocabulary.path``) is loaded instead of learned.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine, or the vocabulary is damaged.
    """
    files, fingerprints = corpus(config.data, cache)
    if config.data.hold_out:
        (train,), (dev,) = held_out((files["train"],), config.data.hold_out, cache, running=True)
        files = {**files, "train": train, "dev": dev}
    settings = stream_settings(config.data, files)
    # Splitting detected from the text is in no config key, so the checksums must distinguish such runs.
    if config.data.name == "files" and settings.kind == "word" and settings.splitting != config.data.split_at:
        fingerprints = {**fingerprints, "words": f"{settings.splitting}, from {settings.min_frequency} on"}
    return StreamData(config, files, fingerprints, settings, cache)


def stream_settings(data: StreamDataConfig, files: Files) -> StreamSettings:
    """Return the settings of tokenization and vocabulary.

    The user's own text with splitting "auto" is tested by :func:`is_raw`. If it is untokenized, it is split at
    punctuation, and its words that occur once are unknown unless ``min_frequency`` is set. Other texts are split as
    configured, and no word is unknown by default.
    """
    words = data.vocabulary
    raw = data.name == "files" and data.splitting == "auto" and "train" in files and is_raw(files["train"])
    rarest = words.min_frequency or (RAREST if raw else 1)
    if words.kind == "bpe":
        return StreamSettings(words.size, words.multiple_of, kind="bpe")
    return StreamSettings(words.size, words.multiple_of, "punctuation" if raw else data.split_at, rarest)


def is_raw(path: Path) -> bool:
    """True if over 1 % of words end with attached punctuation.

    Only a text's first :data:`LINES` lines are read. Marks are , ; : ! ? behind a letter or digit.
    """
    lines = islice(numbered_lines(path, longest=LONGEST_PARAGRAPH), LINES)
    words = [word for _, line in lines for word in line.split()]
    attached = sum(len(word) > 1 and word[-1] in ",;:!?" and word[-2].isalnum() for word in words)
    return attached > ATTACHED * len(words)


def corpus(data: StreamDataConfig, cache: Path) -> tuple[Files, dict[str, str]]:
    """Return the text files by split, and their checksums.

    The built-in corpus is unpacked into ``cache``. Of a dataset with several files a split, the first file of each
    counts.

    Raises:
        PhmrunError: (exit 3) A file or dataset is not on this machine.
    """
    if data.name == "builtin":
        directory = builtin.unpack("translation", cache)
        files = {split: directory / f"{split}.{data.language}" for split in SPLITS}
        return files, {"builtin": builtin.VERSIONS["translation"]}
    if data.name == "files":
        return own_texts(data)
    located = locate(data.name)
    return {split: next(iter(roles.values())) for split, roles in located.items()}, checksums(data.name)


def read_items(run: Run, split: str, part: str) -> Items | None:
    """Return millibits, words, bytes and characters of each line of a split, ``[lines, 4]``.

    A run stores the surprisal of each word in bits with three decimals, so that scores computed again from them are
    accurate to about 0.1 %.

    Surprisals come from the run, the text from its data. With the part "known", unknown words do not count; ``None``
    for any other part.

    Raises:
        ValueError: The stored lines are not those of the text.
    """
    if part not in ("", KNOWN):
        return None
    data = build_experiment_data(load_run_config(run.config_path))
    stored = read_text(run.predictions / f"{split}.txt").split("\n")[:-1]
    lines = list(text_lines(data.files[split], "reading"))
    rows = []
    for text, line in zip(lines, stored, strict=True):
        millibits = np.rint(1000 * np.array(line.split(), dtype=np.float64))
        if part:
            vocabulary = data.vocabulary
            scored = np.array([*vocabulary.encode(text), vocabulary.end]) != vocabulary.unknown
            millibits = millibits[scored]
        rows.append((millibits.sum(), len(millibits), len(text.encode("utf-8")) + 1, len(text) + 1))
    return Items(np.array(rows, dtype=np.float64), checksum(lines))


def perplexity_of(counts: Counts) -> float:
    """Return the perplexity of lines with these counts of :func:`read_items`."""
    return float(2.0 ** _bits_per(counts, WORDS))


def _bits_per(counts: Counts, unit: int) -> float:
    """Return the bits per unit, a column of the counts."""
    total = counts.sum(axis=0, dtype=np.float64)
    return float(total[MILLIBITS] / 1000 / max(total[unit], 1))


bits_per_byte_of, bits_per_character_of = (partial(_bits_per, unit=unit) for unit in (BYTES, CHARACTERS))
"""Bits per byte and per character, line ends included, of lines with these counts of :func:`read_items`."""
