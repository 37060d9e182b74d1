"""Reader under test: generator of good inputs, and the code that reads one input."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Read = Callable[[bytes], Any]


@dataclass(frozen=True)
class Reader:
    """A reader under test.

    Attributes:
        name: For the command line and the table.
        kind: Whether it reads text (JSON and YAML among it) or bytes.
        seeds: Makes good inputs.
        prepare: Given a folder to work in, returns what reads one input.
        tokens: Words of its format.
        structured: Whether the inputs are JSON.
    """

    name: str
    kind: Literal["text", "binary"]
    seeds: Callable[[], Sequence[bytes]]
    prepare: Callable[[Path], Read]
    tokens: tuple[bytes, ...] = ()
    structured: bool = False


def from_file(use: Callable[[Path], Any], name: str = "input") -> Callable[[Path], Read]:
    """Return a function that writes an input to a file of that name and reads the file."""

    def prepare(folder: Path) -> Read:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)

        def read(content: bytes) -> Any:
            path.write_bytes(content)
            return use(path)

        return read

    return prepare


def fixed(*texts: str) -> Callable[[], Sequence[bytes]]:
    return lambda: [text.encode() for text in texts]
