"""Vocabularies of other people's models: a SentencePiece model, and a list that says which number each piece has."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import sentencepiece

from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import replacing
from phmrun.text.vocabulary import SPECIALS, UNK, check_entries, content, read_model, write_description

MODEL = "pieces.json"


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """What encodes and decodes by a serialised SentencePiece model.

    Raises:
        ValueError: It is none. (SentencePiece takes empty bytes for "no model yet", and then speaks on standard error.)
    """
    if not model:
        raise ValueError("the SentencePiece model is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"this is no SentencePiece model: {error}") from error


class PieceVocabulary:
    """A SentencePiece model whose pieces have numbers of their own.

    Args:
        model: The serialised SentencePiece model.
        pieces: The pieces by number, the four special ones first.
    """

    kind = "pieces"

    def __init__(self, model: bytes, pieces: Sequence[str]) -> None:
        self._model = model
        self._pieces = list(pieces)
        self.requested = self.entries = len(pieces)
        try:
            self._processor = processor_of(model)
        except ValueError as error:
            raise PhmrunError("the SentencePiece model is damaged", code=ExitCode.DATA) from error
        self._numbers = {piece: number for number, piece in enumerate(pieces) if number >= len(SPECIALS)}

    @property
    def model(self) -> bytes:
        """The serialised SentencePiece model."""
        return self._model

    @property
    def tokens(self) -> Sequence[str]:
        """The pieces by number."""
        return tuple(self._pieces)

    @property
    def sha256(self) -> str:
        """Checksum of model and pieces."""
        return hashlib.sha256(self._text().encode()).hexdigest()

    def __len__(self) -> int:
        """Rows that an embedding needs."""
        return self.entries

    def encode(self, text: str) -> list[int]:
        """The numbers of one line's pieces, with neither a beginning nor an end."""
        return [self._numbers.get(piece, UNK) for piece in self._processor.encode(text, out_type=str)]

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """:meth:`encode` for many lines."""
        return [self.encode(line) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces up to the end, without padding and the beginning."""
        text: str = self._processor.decode_pieces([self._pieces[number] for number in content(ids, self.entries)])
        return text

    def save(self, directory: Path) -> None:
        """Writes ``pieces.json``, which holds the model too, and ``vocabulary.json`` into ``directory``."""
        with replacing(directory / MODEL) as temporary:
            temporary.write_text(self._text(), encoding="utf-8")
        write_description(directory, self, MODEL)

    @classmethod
    def load(cls, directory: Path, description: dict[str, str | int]) -> "PieceVocabulary":
        """Reads what :meth:`save` wrote.

        Raises:
            PhmrunError: (exit 3) The file is missing or damaged.
        """
        try:
            read = parse_json(read_model(directory, MODEL, description))
            model, pieces = bytes.fromhex(read["model"]), [str(piece) for piece in read["pieces"]]
        except (ValueError, KeyError, TypeError) as error:
            what = f"the list of pieces is damaged: {error!r}"
            raise PhmrunError(what, where=str(directory / MODEL), code=ExitCode.DATA) from error
        check_entries(directory, description, len(pieces))
        return cls(model, pieces)

    def _text(self) -> str:
        return json.dumps({"model": self._model.hex(), "pieces": self._pieces}, ensure_ascii=False)
