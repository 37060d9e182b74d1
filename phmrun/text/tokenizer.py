"""Vocabulary of a tokenizer of Hugging Face's tokenizers: a folder's own, or byte-level BPE learned from text.

On disk it is ``tokenizer.json``, as the library writes it, beside ``vocabulary.json``. No code of a folder is run.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

from phmrun.registry import extra_package
from phmrun.text.vocabulary import BOS, EOS, PAD, SPECIALS, Vocabulary, padded_size

LINES = 2048
"""Lines that are split at a time."""


def tokenizers() -> Any:
    """Return the package tokenizers.

    Raises:
        PhmrunError: (exit 2) It is not installed.
    """
    return extra_package("tokenizers", "transformers")


def parse_tokenizer(text: str) -> Any:
    """Return the tokenizer of a ``tokenizer.json``.

    Raises:
        ValueError: The content is damaged.
    """
    try:
        return tokenizers().Tokenizer.from_str(text)
    except Exception as error:  # the library raises Exception itself
        raise ValueError(str(error)) from error


class Joining(NamedTuple):
    """Rule that makes sentences one input of a network.

    Attributes:
        around: Tokens before the first sentence, behind it, and behind the second.
        kind: Kind of the tokens from the second sentence on, which those before it do not have: 1 in BERT.
        pad: Token behind shorter inputs of a batch, which the network does not read.
    """

    around: tuple[tuple[int, ...], ...]
    kind: int
    pad: int


class TokenizerVocabulary(Vocabulary):
    """Tokens of a tokenizer.

    Args:
        tokenizer: A ``tokenizers.Tokenizer``.
        size: Rows of the embedding, at least the entries.
        roles: Id of the special tokens by role: "pad", "unk", "bos", "eos", "cls", "sep", as far as there are any.
        counts: Count of each entry in the training text; empty if unknown.
    """

    kinds = ("tokenizer",)
    model_file = "tokenizer.json"

    def __init__(self, tokenizer: Any, *, size: int, roles: Mapping[str, int], counts: Sequence[int] = ()) -> None:
        entries = tokenizer.get_vocab_size(with_added_tokens=True)
        names = [tokenizer.id_to_token(index) or "" for index in range(entries)]
        super().__init__("tokenizer", names, size=max(size, entries), requested=size)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.roles, self.counts = tokenizer, dict(roles), list(counts)
        self.unknown = self.roles.get("unk", -1)
        ends = [self.roles[role] for role in ("bos", "eos", "sep") if role in self.roles]
        self.end = [*ends, *self.encode("\n"), 0][0]

    @property
    def unit(self) -> str:
        """Signature of the predicted units: size and checksum of the tokenizer."""
        return f"unit:token|vocabulary:{len(self)}|tokenizer:{self.sha256[:8]}|end:counted"

    def ends_line(self, token: int) -> bool:
        """Return True for a token with a line break, and for the end of a text."""
        return token == self.roles.get("eos") or "\n" in self.tokenizer.decode([token])

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text, without special tokens around it."""
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def stream(self, lines: Iterable[str]) -> Iterator[list[int]]:
        """Yield the ids of each line, with those of its line end."""
        rest = iter(lines)
        while part := [f"{line}\n" for line in islice(rest, LINES)]:
            for coded in self.tokenizer.encode_batch_fast(part, add_special_tokens=False):
                yield coded.ids

    def decode(self, ids: Iterable[int]) -> str:
        """Return the text of tokens; special and unused ones are skipped."""
        marks = {self.roles[role] for role in self.roles if role != "unk"}
        kept = [token for token in map(int, ids) if token < self.entries and token not in marks]
        return self.tokenizer.decode(kept, skip_special_tokens=False)

    def keeps(self, text: str) -> bool:
        """Return True if the tokens of a text give it back; spaces around it do not count."""
        return self.decode(self.encode(text)).strip(" ") == text.strip(" ")

    def mark_ends(self) -> None:
        """Have the tokenizer put a beginning before a sentence or pair, and an end behind each sentence."""
        begin, end = (self.tokens[self.roles[role]] for role in ("bos", "eos"))
        self.tokenizer.post_processor = tokenizers().processors.TemplateProcessing(
            single=f"{begin} $A {end}",
            pair=f"{begin} $A {end} $B:1 {end}:1",
            special_tokens=[(begin, self.roles["bos"]), (end, self.roles["eos"])],
        )

    def joining(self, sentences: int) -> Joining:
        """Return what stands around one sentence or two in an input of the tokenizer's model.

        Two sentences that the tokenizer would not separate have the end of a text, else of a line, between them.
        """
        joined = self.tokenizer.encode(*"ab"[:sentences], add_special_tokens=True)
        around: list[list[int]] = [[] for _ in range(sentences + 1)]
        place = 0
        for index, part in zip(joined.ids, joined.sequence_ids, strict=True):
            if part is None:
                around[place].append(index)
            else:
                place = part + 1
        if sentences > 1 and not around[1]:
            around[1] = [self.roles.get("eos", self.end)]
        return Joining(tuple(map(tuple, around)), joined.type_ids[-1], self.roles.get("pad", self.end))

    def content(self) -> bytes:
        """Return the content of ``tokenizer.json``."""
        return self.tokenizer.to_str().encode()

    def description(self) -> dict[str, Any]:
        """Return the content of ``vocabulary.json`` without the checksum, with roles and counts."""
        return {**super().description(), "roles": self.roles, "counts": self.counts}

    @classmethod
    def of(cls, content: bytes, description: Mapping[str, Any]) -> Self:
        """Build the vocabulary from its stored tokenizer and description.

        Raises:
            ValueError, LookupError: The content is damaged.
        """
        roles, counts = description["roles"], description["counts"]
        return cls(parse_tokenizer(content.decode()), size=description["size"], roles=roles, counts=counts)


def learn_bpe(lines: Iterable[str], *, size: int, multiple_of: int = 1) -> TokenizerVocabulary:
    """Learn byte-level BPE (Radford et al. 2019) from lines: every text can be written, nothing is unknown.

    Args:
        lines: The training text, read once.
        size: Largest number of tokens; 256 bytes and four special tokens are among them.
        multiple_of: The size is padded to a multiple of this.
    """
    library = tokenizers()
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = library.decoders.ByteLevel()
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    trainer = library.trainers.BpeTrainer(
        vocab_size=size, special_tokens=list(SPECIALS), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((f"{line}\n" for line in lines), trainer)
    rows = padded_size(tokenizer.get_vocab_size(), multiple_of)
    return TokenizerVocabulary(tokenizer, size=rows, roles={"pad": PAD, "bos": BOS, "eos": EOS})
