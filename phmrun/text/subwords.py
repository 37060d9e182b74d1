"""Subword vocabularies of SentencePiece: unigram model or byte-pair encoding, trained here or imported.

The text is not normalized, so ``decode(encode(text))`` returns the text. Exceptions are runs of spaces, and characters
outside the alphabet, which become the unknown token, shown as ``⁇``.
"""

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import sentencepiece

from phmrun.cores import usable_cores
from phmrun.documents import parse_json
from phmrun.errors import ExitCode, PhmrunError, data_error
from phmrun.text.vocabulary import BOS, EOS, PAD, SPECIALS, UNK, Vocabulary, padded_size, without_specials

LINES_PER_THREAD = 128
"""Smallest number of lines per encoding thread."""
UNKNOWN_SURFACE = "⁇"
_TOO_MANY_CHARACTERS = re.compile(r"smaller than required_chars\. \d+ vs (\d+)")


class SubwordVocabulary(Vocabulary):
    """SentencePiece model, padded to a size."""

    kinds = ("unigram", "bpe")
    model_file = "subwords.model"

    def __init__(self, model: bytes, *, kind: str, size: int, requested: int) -> None:
        self.model = model
        self._processor = processor_of(model)
        pieces = map(self._processor.id_to_piece, range(self._processor.get_piece_size()))
        super().__init__(kind, pieces, size=size, requested=requested)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of one line, without beginning and end tokens.

        Characters that the model lacks become unknown tokens.
        """
        return self._processor.encode(text)

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the token ids of many lines, in order.

        There is one thread per 128 lines, at least one and at most one per usable core.
        """
        threads = max(1, min(len(lines) // LINES_PER_THREAD, usable_cores()))
        return self._processor.encode(list(lines), num_threads=threads)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids up to the end token.

        Padding, beginning and unused ids are skipped.
        """
        return self._processor.decode(without_specials(ids, self.entries))

    def content(self) -> bytes:
        """Return the serialized SentencePiece model."""
        return self.model

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """Build the vocabulary from a SentencePiece model.

        A model with a piece that is no valid text counts as damaged.

        Raises:
            ValueError: The model is damaged.
            LookupError: The description lacks a key.
        """
        sizes = {key: description[key] for key in ("size", "requested")}
        try:
            loaded = cls(content, kind=description["kind"], **sizes)
            loaded._processor.decode(list(range(loaded.entries)))  # the unknown token's surface may be invalid text
        except RuntimeError as error:
            raise ValueError(f"SentencePiece cannot read it: {error}") from error
        return loaded


def train_subwords(
    lines: Iterable[str], *, kind: str, size: int, multiple_of: int = 1, character_coverage: float = 1.0
) -> SubwordVocabulary:
    """Train a SentencePiece model; see :func:`phmrun.text.vocabularies.train_vocabulary`.

    One thread, no sampling and no shuffling inside SentencePiece: with two threads a unigram model of 2,000 pieces has
    8 others and 720 other scores, and its sampling has a seed of its own. A caller with a large corpus passes an evenly
    spaced sample of it. Lines of more than 65,536 bytes are dropped. The vocabulary has the pieces that SentencePiece
    learned, at most ``size``, padded with unused ids to ``multiple_of``.

    Raises:
        PhmrunError: (exit 3) There is no text, or SentencePiece refuses it.
    """
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type=kind,
            vocab_size=size,
            hard_vocab_limit=False,
            num_threads=1,
            input_sentence_size=0,
            shuffle_input_sentence=False,
            # By default SentencePiece silently drops lines longer than 4192 bytes.
            max_sentence_length=1 << 16,
            character_coverage=character_coverage,
            normalization_rule_name="identity",
            byte_fallback=False,
            unk_surface=UNKNOWN_SURFACE,
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            pad_piece=SPECIALS[PAD],
            unk_piece=SPECIALS[UNK],
            bos_piece=SPECIALS[BOS],
            eos_piece=SPECIALS[EOS],
            minloglevel=2,
        )
    except RuntimeError as error:
        raise _explained(error, size) from error
    pieces = processor_of(model.getvalue()).get_piece_size()
    return SubwordVocabulary(model.getvalue(), kind=kind, size=padded_size(pieces, multiple_of), requested=size)


def _explained(error: RuntimeError, size: int) -> PhmrunError:
    """Return the user error (exit 3) for a SentencePiece message.

    It names the smallest possible size if the text has too many characters, or says that there is no text; else it
    quotes the message.
    """
    message = str(error)
    if needed := _TOO_MANY_CHARACTERS.search(message):
        what = f"the text has too many different characters for a vocabulary of {size} entries"
        return PhmrunError(what, where="vocabulary size", valid=[f"at least {needed[1]}"], code=ExitCode.DATA)
    if "sentences_.empty()" in message:
        return data_error("there is no text to learn a vocabulary from")
    return data_error(f"SentencePiece could not learn a vocabulary: {message}")


def processor_of(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """Load a serialized SentencePiece model.

    Raises:
        ValueError: The bytes are empty or not a SentencePiece model.
    """
    if not model:
        raise ValueError("the SentencePiece model is empty")
    try:
        return sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise ValueError(f"not a SentencePiece model: {error}") from error


class PieceVocabulary(Vocabulary):
    """SentencePiece model whose pieces have other ids, as in imported models.

    ``pieces.json`` holds both.

    Args:
        pieces: The pieces by id, the four special tokens first.

    Raises:
        ValueError: The bytes are not a SentencePiece model.
    """

    kinds = ("pieces",)
    model_file = "pieces.json"

    def __init__(self, model: bytes, pieces: Sequence[str]) -> None:
        super().__init__("pieces", pieces, size=len(pieces), requested=len(pieces))
        self.model = model
        self._processor = processor_of(model)
        self._numbers = {piece: number for number, piece in enumerate(pieces) if number >= len(SPECIALS)}

    def encode(self, text: str) -> list[int]:
        """Return the ids of one line's pieces, without beginning and end.

        Pieces that are not in the vocabulary are unknown.
        """
        return [self._numbers.get(piece, UNK) for piece in self._processor.encode(text, out_type=str)]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of the pieces up to the end token.

        Padding and beginning tokens are left out, as are spaces at the ends.
        """
        kept = without_specials(ids, self.entries)
        text = self._processor.decode_pieces([self.tokens[number] for number in kept])
        return text.replace("▁", " ").strip()  # the model returns a piece of the other side alone as it is

    def content(self) -> bytes:
        """Return model (hexadecimal) and pieces as JSON bytes."""
        return json.dumps({"model": self.model.hex(), "pieces": self.tokens}, ensure_ascii=False).encode()

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """Build the vocabulary from model and pieces.

        Raises:
            ValueError, LookupError: The content is damaged.
        """
        read = parse_json(content)
        return cls(bytes.fromhex(read["model"]), [str(piece) for piece in read["pieces"]])
