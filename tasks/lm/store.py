"""Running text as one long row of token ids on disk, memory-mapped, so that memory does not grow with it.

A store is a directory: ``tokens.bin`` (two bytes a token where the vocabulary has at most 65,536 entries, else four,
little-endian) and ``store.json``, which is written last: a directory without it is no store.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phmrun.documents import parse_json
from phmrun.files import intact, write_json
from phmrun.text.store import REMOVE, mapped

TOKENS, DESCRIPTION = "tokens.bin", "store.json"


class StreamStore:
    """A read-only row of token ids.

    Args:
        path: The store's directory.

    Attributes:
        tokens: All ids, ``[tokens]``; slices of it are read from the file.

    Raises:
        PhmrunError: (exit 3) The directory holds no complete store.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with intact("the token store is", path, REMOVE):
            description = parse_json((path / DESCRIPTION).read_text(encoding="utf-8"))
            self.tokens: NDArray[np.unsignedinteger] = mapped(
                path / TOKENS, description["dtype"], int(description["tokens"])
            )

    def __len__(self) -> int:
        """Tokens."""
        return len(self.tokens)

    def __reduce__(self) -> tuple[type["StreamStore"], tuple[Path]]:
        """Loader processes get the path and map the file themselves, not a copy of the tokens."""
        return StreamStore, (self.path,)


def write_stream(
    path: Path, words: Iterable[list[str]], ids: Mapping[str, int], *, unknown: int, vocabulary_size: int
) -> dict[str, Any]:
    """Writes a store chunk by chunk, in constant memory.

    Args:
        path: The directory to make.
        words: The text, many words at a time.
        ids: The ids of the words that are known.
        unknown: The id of all others.
        vocabulary_size: Ids are below this; it decides the bytes a token takes.

    Returns:
        ``tokens``, ``unknown`` (tokens) and ``types`` (different ids).
    """
    path.mkdir(parents=True, exist_ok=True)
    dtype = np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")
    seen = np.zeros(vocabulary_size, dtype=np.int64)
    find = {**ids}.get
    with (path / TOKENS).open("wb") as file:
        for chunk in words:
            tokens = np.array([find(word, unknown) for word in chunk], dtype=dtype)
            seen += np.bincount(tokens, minlength=vocabulary_size)
            file.write(tokens.tobytes())
        file.flush()
        os.fsync(file.fileno())
    total = int(seen.sum())
    write_json(path / DESCRIPTION, {"tokens": total, "dtype": dtype.str})
    return {"tokens": total, "unknown": int(seen[unknown]), "types": int(np.count_nonzero(seen))}
