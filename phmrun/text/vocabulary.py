"""What a vocabulary is: text to token ids and back, with the four ids that every vocabulary shares.

On disk a pair of vocabularies is ``shared/`` (joint) or ``source/`` and ``target/``; each of these holds
``vocabulary.json`` (kind, size) and one model file. Nothing on disk is executable: no pickle.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, get_args

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import sha256_of, write_json

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ("<pad>", "<unk>", "<s>", "</s>")
Kind = Literal["unigram", "bpe", "word"]
KINDS: tuple[str, ...] = get_args(Kind)
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


@dataclass(frozen=True)
class Vocabularies:
    """The vocabularies of the two sides; one object for both where they are joint.

    Args:
        source: Vocabulary of the source language.
        target: Vocabulary of the target language.
    """

    source: Vocabulary
    target: Vocabulary

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary, so that their embeddings can be tied."""
        return self.source is self.target

    @property
    def sizes(self) -> tuple[int, int]:
        """Entries of the source and of the target vocabulary."""
        return len(self.source), len(self.target)

    def save(self, directory: Path) -> None:
        """Writes both into ``directory``: ``shared/``, or ``source/`` and ``target/``."""
        if self.joint:
            self.source.save(directory / "shared")
        else:
            self.source.save(directory / "source")
            self.target.save(directory / "target")

    @classmethod
    def load(cls, directory: Path) -> "Vocabularies":
        """Reads what :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The directory holds no complete pair of vocabularies.
        """
        shared = directory / "shared"
        if shared.is_dir():
            vocabulary = load_vocabulary(shared)
            return cls(vocabulary, vocabulary)
        return cls(load_vocabulary(directory / "source"), load_vocabulary(directory / "target"))


def train_vocabulary(
    lines: Iterable[str],
    *,
    kind: str,
    size: int,
    multiple_of: int = 1,
    min_frequency: int = 1,
    character_coverage: float = 1.0,
) -> Vocabulary:
    """Learns a vocabulary from text; the same lines in the same order give the same vocabulary.

    Args:
        lines: The training text, read once.
        kind: ``unigram`` or ``bpe`` (SentencePiece), or ``word`` (split at white space).
        size: Most entries, the four special ones included. Where the text allows fewer, the vocabulary is as large as
            the text allows; compare ``requested`` with ``entries``.
        multiple_of: The size is padded with unused entries to a multiple of this, for structures whose order must
            divide it.
        min_frequency: Words rarer than this are unknown (kind ``word`` only).
        character_coverage: Share of the text's characters that the alphabet covers (SentencePiece only).

    Raises:
        PhmrunError: The kind is unknown or a number out of range (exit 2), or the text is empty or has more different
            characters than ``size`` (exit 3).
    """
    if kind not in KINDS:
        raise PhmrunError(f"there is no kind of vocabulary {kind!r}", valid=KINDS)
    if size <= len(SPECIALS):
        raise PhmrunError(f"a vocabulary of {size} entries has no room beside the {len(SPECIALS)} special ones")
    if multiple_of < 1:
        raise PhmrunError(f"a vocabulary's size cannot be padded to a multiple of {multiple_of}", valid=["1 or more"])
    if kind == "word":
        from phmrun.text.words import train_words

        return train_words(lines, size=size, multiple_of=multiple_of, min_frequency=min_frequency)
    from phmrun.text.subwords import train_subwords

    return train_subwords(lines, kind=kind, size=size, multiple_of=multiple_of, character_coverage=character_coverage)


def load_vocabulary(directory: Path) -> Vocabulary:
    """Reads a vocabulary that its ``save`` wrote.

    Raises:
        PhmrunError: (exit 3) The directory holds no vocabulary, or one that this version cannot read.
    """
    description = read_description(directory)
    if description["kind"] == "word":
        from phmrun.text.words import WordVocabulary

        return WordVocabulary.load(directory, description)
    from phmrun.text.subwords import SubwordVocabulary

    return SubwordVocabulary.load(directory, description)


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
        sizes = [int(description[key]) for key in ("size", "entries", "requested")]
    except FileNotFoundError as error:
        raise PhmrunError("there is no vocabulary here", where=str(directory), code=ExitCode.DATA) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PhmrunError(f"the vocabulary is damaged: {error!r}", where=str(path), code=ExitCode.DATA) from error
    if form != FORMAT or kind not in KINDS or sizes[0] < sizes[1]:
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
