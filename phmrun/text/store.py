"""From raw text to a vocabulary and memory-mapped token stores, once per content, kept in the cache.

A directory there is built beside its place and renamed when it is complete: killed at any moment, a process leaves
nothing that could be taken for a result. Its name is a checksum of everything that the result depends on, such as the
SHA-256 of every file, so that a changed file is never mistaken for the old one. The checksums of all files within are
compared when the directory is opened; one that is damaged is made again.

Memory does not grow with the corpus. A store is a directory of three files. ``tokens.bin`` holds all ids, sentence
after sentence, in two bytes each if the vocabulary has at most 65,536 entries, else in four. ``offsets.bin`` holds
the start of each sentence and the total, in 8 bytes each. ``store.json`` is written last and marks a complete store.
All numbers are little-endian.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from phmrun.checksums import fault_in, write_checksums
from phmrun.documents import parse_json
from phmrun.errors import data_error
from phmrun.files import file_lock, intact, read_text, remove, sha256_of_input, write_json
from phmrun.progress import note
from phmrun.text.vocabulary import UNK

REMOVE = "Delete its directory; it is rebuilt from the text."
DTYPES = ("<u2", "<u4", "<i8", "<f4")
BUFFER = 1 << 18
"""Tokens, and sentences, that a writer holds before it writes them."""


class StreamStore:
    """Read-only, memory-mapped row of token ids, ``tokens [tokens]``.

    Raises:
        PhmrunError: (exit 3) The directory holds no complete store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with intact("the token store is", path, REMOVE):
            self._open(path, parse_json(read_text(path / "store.json")))

    def _open(self, path: Path, description: Mapping[str, Any]) -> None:
        """Map the files that ``store.json`` describes."""
        count, kind = int(description["tokens"]), description["dtype"]
        self.tokens: NDArray[np.unsignedinteger] = mapped(path / "tokens.bin", kind, count)

    def __len__(self) -> int:
        """Number of tokens."""
        return len(self.tokens)

    def __reduce__(self) -> tuple[type, tuple[Path]]:
        """Pickle the path only; loader processes map the files themselves."""
        return type(self), (self.path,)


class TokenStore(StreamStore):
    """Read-only ragged array of token ids; ``tokens`` are those of all sentences, one after the other.

    ``store[i]`` is a view of sentence ``i`` in the file.

    Raises:
        PhmrunError: (exit 3) The directory holds no complete store.
    """

    def _open(self, path: Path, description: Mapping[str, Any]) -> None:
        """Map the files that ``store.json`` describes."""
        super()._open(path, description)
        self._offsets: NDArray[np.int64] = mapped(path / "offsets.bin", "<i8", int(description["sentences"]) + 1)

    def __len__(self) -> int:
        """Number of sentences."""
        return len(self._offsets) - 1

    def __getitem__(self, index: int) -> NDArray[np.unsignedinteger]:
        """Return the token ids of one sentence, [length], without beginning and end tokens.

        Raises:
            IndexError: ``index`` is too large.
        """
        return self.tokens[self._offsets[index] : self._offsets[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int32]:
        """Tokens of each sentence, [sentences], without the end token.

        They take 4 bytes a sentence in memory.
        """
        return np.diff(self._offsets).astype(np.int32)


class ParallelStore:
    """Two token stores, ``source/`` and ``target/``, aligned sentence by sentence.

    Raises:
        PhmrunError: (exit 3) A side is missing.
    """

    def __init__(self, path: Path) -> None:
        self.source = TokenStore(path / "source")
        self.target = TokenStore(path / "target")


class TokenStoreWriter:
    """Context manager that writes a store sentence by sentence, in constant memory.

    The store is complete after the ``with`` block has ended without an exception. An existing store there is
    overwritten.

    Args:
        path: The directory to make.
        vocabulary_size: Upper bound of ids; it determines the bytes per token.
        unknown: Id of the unknown token; negative without one.

    Raises:
        ValueError: An appended id is out of range; raised when the tokens are written.
    """

    def __init__(self, path: Path, *, vocabulary_size: int, unknown: int = UNK) -> None:
        self.path, self.unknown = path, unknown
        self._dtype = np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")
        self._sentences = self._tokens = self._unknown = self._longest = 0
        self._pending: list[int] = []
        self._lengths: list[int] = []
        self._seen = np.zeros(vocabulary_size, dtype=bool)
        path.mkdir(parents=True, exist_ok=True)
        self._token_file: IO[bytes] = (path / "tokens.bin").open("wb")
        self._offset_file: IO[bytes] = (path / "offsets.bin").open("wb")
        self._offset_file.write(bytes(8))  # the first sentence begins at 0

    def append(self, ids: Sequence[int]) -> None:
        """Append one sentence.

        Tokens wait in memory, and are checked and written once :data:`BUFFER` tokens or sentences wait.
        """
        self._pending.extend(ids)
        self._lengths.append(len(ids))
        if len(self._pending) >= BUFFER or len(self._lengths) >= BUFFER:
            self._flush()

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the finished store.

        Keys: tokens, mean_length (tokens, rounded to 3 decimals), max_length (tokens), unknown_rate (0–1), types
        (distinct tokens). Without sentences, each is 0.
        """
        return {
            "tokens": self._tokens,
            "mean_length": round(self._tokens / self._sentences, 3) if self._sentences else 0.0,
            "max_length": self._longest,
            "unknown_rate": self._unknown / self._tokens if self._tokens else 0.0,
            "types": int(self._seen.sum()),
        }

    def __enter__(self) -> "TokenStoreWriter":
        """The writer itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish the store; after an exception the directory stays unfinished."""
        try:
            if kind is None:
                self._flush()
                for handle in (self._token_file, self._offset_file):
                    handle.flush()
                    os.fsync(handle.fileno())
        finally:
            self._token_file.close()
            self._offset_file.close()
        if kind is None:
            description = {"sentences": self._sentences, "tokens": self._tokens, "dtype": self._dtype.str}
            write_json(self.path / "store.json", description)

    def _flush(self) -> None:
        """Write the pending tokens and offsets to the files, and clear them.

        Unknown tokens, distinct tokens and the longest sentence are counted here for :meth:`statistics`.

        Raises:
            ValueError: An id is out of range.
        """
        tokens = np.array(self._pending, dtype=np.int64)
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < len(self._seen)):
            raise ValueError(f"a token id is outside 0..{len(self._seen) - 1}")
        lengths = np.array(self._lengths, dtype="<i8")
        self._token_file.write(tokens.astype(self._dtype).tobytes())
        self._offset_file.write((self._tokens + np.cumsum(lengths)).astype("<i8").tobytes())
        self._sentences += len(lengths)
        self._tokens += len(tokens)
        self._longest = max(self._longest, int(lengths.max(initial=0)))
        self._unknown += int(np.count_nonzero(tokens == self.unknown))
        self._seen[tokens] = True
        self._pending.clear()
        self._lengths.clear()


def mapped(path: Path, dtype: str, count: int) -> NDArray:
    """Map a file of ``count`` numbers, read-only.

    The result is an empty array if ``count`` is 0.

    Raises:
        ValueError: The file has another size, or ``dtype`` is not one of ``DTYPES``.
    """
    if dtype not in DTYPES:
        raise ValueError(f"numbers of the kind {dtype!r}")
    expected = count * np.dtype(dtype).itemsize
    if (size := path.stat().st_size) != expected:
        raise ValueError(f"{path.name} has {size} bytes, not {expected}")
    # A plain array over the map: slices of a memmap take seven times as long.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r")) if count else np.zeros(0, dtype)


TRAIN = "train"


class Kept(Protocol):
    """A vocabulary that a directory can hold."""

    def save(self, directory: Path) -> None:
        """Write the vocabulary to a directory."""

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Load what ``save`` wrote."""


V = TypeVar("V", bound=Kept)
S = TypeVar("S")


@dataclass(frozen=True)
class Prepared(Generic[V, S]):
    """Prepared data: their directory in the cache, vocabulary, stores and statistics (JSON)."""

    path: Path
    vocabulary: V
    stores: dict[str, S]
    statistics: dict[str, Any]


def prepare(
    cache: Path,
    content: Mapping[str, Any],
    splits: Collection[str],
    *,
    learn: Callable[[], V],
    encode: Callable[[str, V, Path], dict[str, Any]],
    describe: Callable[[V], dict[str, Any]],
    kind: type[V],
    store: Callable[[Path], S],
) -> Prepared[V, S]:
    """Learn a vocabulary and encode the splits, unless the cache has both.

    The result's ``statistics`` have the keys "vocabulary" (of ``describe``) and "splits" (of ``encode``, by split).
    Vocabulary and stores are opened from the cache even if they were just built.

    Args:
        cache: Directory of prepared data.
        content: See :func:`build_once`.
        splits: Names of the splits.
        learn: Trains the vocabulary.
        encode: Writes the store of a split into a directory, and returns its statistics.
        describe: Returns the vocabulary's part of the statistics.
        kind: The vocabulary's class.
        store: Opens a store.

    Raises:
        PhmrunError: (exit 3) A file is missing or malformed, or the directory is damaged; (exit 2) a setting is out of
            range.
    """

    def build(path: Path) -> dict[str, Any]:
        """Write vocabulary and stores into a directory.

        Return their statistics, "vocabulary" and "splits".
        """
        vocabulary = learn()
        vocabulary.save(path / "vocabulary")
        described = describe(vocabulary)
        return {"vocabulary": described, "splits": {split: encode(split, vocabulary, path / split) for split in splits}}

    path, statistics = build_once(cache, content, build)
    stores = {split: store(path / split) for split in splits}
    return Prepared(path, kind.load(path / "vocabulary"), stores, statistics)


def build_once(
    cache: Path, content: Mapping[str, Any], build: Callable[[Path], dict[str, Any]], last: str = "statistics.json"
) -> tuple[Path, dict[str, Any]]:
    """Build a directory in the cache unless it exists.

    Return its path and description. A directory whose checksums differ is built again. The directory's name is a
    checksum of ``content``.

    Args:
        cache: Directory of prepared data.
        content: Everything that the result depends on, as JSON; a path is replaced by its file's checksum.
        build: Fills the given directory and returns its description as JSON.
        last: Name of the description's file, which is written last and marks a complete directory.

    Raises:
        PhmrunError: (exit 3) A file is missing or changes during the build, or the description cannot be read.
    """
    name = _name_of(content)
    path = cache / name
    _make(path, path / last, build, lambda: _name_of(content) == name)
    with intact("the prepared data are", path, f"Delete {path}; it is rebuilt."):
        return path, dict(parse_json(read_text(path / last)))


def _name_of(content: Mapping[str, Any]) -> str:
    """Return the name of a content.

    It is the first 16 hexadecimal digits of the SHA-256 of its JSON with sorted keys. A path in it counts by its file's
    SHA-256.

    Raises:
        PhmrunError: (exit 3) A file is missing.
    """
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=sha256_of_input).encode()).hexdigest()[:16]


def _make(path: Path, last: Path, build: Callable[[Path], dict[str, Any]], unchanged: Callable[[], bool]) -> None:
    """Make a directory unless it is complete and its checksums agree.

    It is built beside its place and renamed; a damaged one is replaced, with a note. Nothing is done if ``last`` is a
    file and no checksum differs. A second process that wants the same waits for the first. ``build``'s result is
    written to ``last``, then the checksums. ``unchanged`` is asked after the build; a failed build leaves nothing.

    Raises:
        PhmrunError: (exit 3) The text has changed while it was read.
    """
    if last.is_file() and not fault_in(path):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(path.with_name(f"{path.name}.lock")):
        if last.is_file():
            if not (fault := fault_in(path)):
                return
            note(f"the prepared data are rebuilt: {fault} in {path}")
        building = path.with_name(f".{path.name}.tmp")
        for leftover in (building, path):  # of a process that was killed
            remove(leftover)
        building.mkdir()
        try:
            write_json(building / last.name, build(building))
            if not unchanged():
                raise data_error("a data file has changed while it was read", None, "Give the same command again.")
            write_checksums(building)
            building.rename(path)
        finally:
            shutil.rmtree(building, ignore_errors=True)
