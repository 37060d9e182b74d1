"""Vocabularies of other people's models: a SentencePiece model, and a list that says which number each piece has."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Self

import sentencepiece

from phmrun.documents import parse_json
from phmrun.text.vocabulary import SPECIALS, UNK, Vocabulary, without_specials


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


class PieceVocabulary(Vocabulary):
    """A SentencePiece model whose pieces have numbers of their own; ``pieces.json`` holds both.

    Args:
        model: The serialised SentencePiece model.
        pieces: The pieces by number, the four special ones first.

    Raises:
        ValueError: There is no such model in the bytes.
    """

    kinds = ("pieces",)
    model_file = "pieces.json"

    def __init__(self, model: bytes, pieces: Sequence[str]) -> None:
        super().__init__("pieces", pieces, size=len(pieces), requested=len(pieces))
        self.model = model
        self._processor = processor_of(model)
        self._numbers = {piece: number for number, piece in enumerate(pieces) if number >= len(SPECIALS)}

    def encode(self, text: str) -> list[int]:
        """The numbers of one line's pieces, with neither a beginning nor an end."""
        return [self._numbers.get(piece, UNK) for piece in self._processor.encode(text, out_type=str)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of the pieces up to the end, without padding and the beginning."""
        kept = without_specials(ids, self.entries)
        text: str = self._processor.decode_pieces([self.tokens[number] for number in kept])
        return text

    def content(self) -> bytes:
        """Model and pieces as JSON."""
        return json.dumps({"model": self.model.hex(), "pieces": self.tokens}, ensure_ascii=False).encode()

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """The vocabulary of model and pieces."""
        read = parse_json(content)
        return cls(bytes.fromhex(read["model"]), [str(piece) for piece in read["pieces"]])
