"""What a vocabulary is: text to token ids and back, with the four ids that every vocabulary shares.

On disk it is ``vocabulary.json`` (kind, size) and one model file. Nothing on disk is executable: no pickle.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, Protocol, get_args

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of, write_json

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
Kind = Literal["unigram", "bpe", "word"]
KINDS: tuple[str, ...] = get_args(Kind)
LARGEST = 1 << 31
"""More entries than any vocabulary has."""
GIVEN = "pieces"
"""Kind of a vocabulary that comes with a model from elsewhere, and is not learnt."""
FORMAT = 1
"""Version of the layout on disk."""


class Vocabulary(Protocol):
    """A reversible map between text and token ids; 0 pads, 1 is unknown, 2 begins and 3 ends a sentence."""

    @property
    def kind(self) -> str:
        """``unigram``, ``bpe`` or ``word``."""

    @property
    def requested(self) -> int:
        """The size that was asked for, in entries, before reduction to what the data allow and before padding."""

    @property
    def entries(self) -> int:
        """Entries in use, the four special ones included; ids from here to ``len`` are unused padding."""

    @property
    def tokens(self) -> Sequence[str]:
        """The entries in use, by id, as they are written."""

    @property
    def sha256(self) -> str:
        """Checksum of the model file's bytes: what names the vocabulary's content."""

    def __len__(self) -> int:
        """Rows that an embedding needs: the entries, padded to ``multiple_of``."""

    def encode(self, text: str) -> list[int]:
        """The token ids of one line, with neither a beginning nor an end."""

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """:meth:`encode` for many lines at once, which is faster."""

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids: stops at the end id, skips padding, the beginning and unused ids."""

    def save(self, directory: Path) -> None:
        """Writes the vocabulary into ``directory``, which is made if missing."""


def write_description(directory: Path, vocabulary: Vocabulary, model: str) -> None:
    """Writes ``vocabulary.json``, last of all files, so that its presence means that the others are there.

    Args:
        directory: Where the model file already is.
        vocabulary: What is being saved.
        model: Name of the model file in ``directory``.
    """
    description = {
        "format": FORMAT,
        "kind": vocabulary.kind,
        "size": len(vocabulary),
        "entries": vocabulary.entries,
        "requested": vocabulary.requested,
        "sha256": sha256_of(directory / model),
    }
    write_json(directory / "vocabulary.json", description)


def read_description(directory: Path) -> dict[str, str | int]:
    """Reads and checks ``vocabulary.json``.

    Raises:
        PhmrunError: (exit 3) It is missing, damaged, or of a later version.
    """
    path = directory / "vocabulary.json"
    try:
        description = parse_json(path.read_text(encoding="utf-8"))
        kind, form = description["kind"], description["format"]
        sizes = [description[key] for key in ("size", "entries", "requested")]
        if not all(isinstance(size, int) and len(SPECIALS) <= size <= LARGEST for size in sizes):
            raise ValueError(f"sizes {sizes}")
    except FileNotFoundError as error:
        raise PhmrunError("there is no vocabulary here", where=str(directory), code=ExitCode.DATA) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PhmrunError(f"the vocabulary is damaged: {error}", where=str(path), code=ExitCode.DATA) from error
    if form != FORMAT or kind not in (*KINDS, GIVEN) or sizes[0] < sizes[1]:
        what = f"this version reads vocabularies of format {FORMAT} and kind {', '.join(KINDS)}, not {form!r}, {kind!r}"
        raise PhmrunError(what, where=str(path), code=ExitCode.DATA)
    return dict(description)


def read_model(directory: Path, name: str, description: dict[str, str | int]) -> bytes:
    """The bytes of a vocabulary's model file, checked against the checksum in ``vocabulary.json``.

    Raises:
        PhmrunError: (exit 3) The file is missing or is not the one that was saved.
    """
    path = directory / name
    if not path.is_file():
        raise PhmrunError("the vocabulary's model file is missing", where=str(path), code=ExitCode.DATA)
    if sha256_of(path) != description.get("sha256"):
        raise PhmrunError("the vocabulary's model file is not the one saved", where=str(path), code=ExitCode.DATA)
    return path.read_bytes()


def check_entries(directory: Path, description: dict[str, str | int], entries: int) -> None:
    """Compares what a model file holds with what ``vocabulary.json`` says of it.

    Raises:
        PhmrunError: (exit 3) They differ: one of them is damaged, or another vocabulary's.
    """
    if entries != description["entries"]:
        what = f"the vocabulary has {entries:,} entries instead of the {description['entries']} that it says"
        raise PhmrunError(what, where=str(directory), code=ExitCode.DATA)


def padded_size(entries: int, multiple_of: int) -> int:
    """The least multiple of ``multiple_of`` that holds ``entries``."""
    return -(-entries // multiple_of) * multiple_of


def content(ids: Iterable[int], entries: int) -> list[int]:
    """The ids that stand for text: up to the first end id, without padding, beginnings and unused ids."""
    kept = []
    for token in map(int, ids):
        if token == EOS:
            break
        if token not in (PAD, BOS) and token < entries:
            kept.append(token)
    return kept
