"""What a language model knows of its words: input vectors, an output map that shares them, and DeFINE between."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from phmrun.errors import PhmrunError
from phmrun.layers import AdaptiveInput, AdaptiveSoftmax, DeFINE


class WordTables(NamedTuple):
    """Tied input and output of a language model.

    Attributes:
        embedding: Tables of word vectors, by cluster of frequency.
        define: What makes the context model's inputs of them; ``None``: they are the inputs.
        output: The softmax over the same tables.
        width: Size of an input vector of the context model.
    """

    embedding: AdaptiveInput
    define: DeFINE | None
    output: AdaptiveSoftmax
    width: int


def build_word_tables(
    vocabulary: int,
    width: int,
    *,
    cutoffs: Sequence[int] = (),
    div_value: float = 4.0,
    narrow: int | None = None,
    bias: bool = False,
    define: Mapping[str, Any] | None = None,
    embedding: Mapping[str, Any] | None = None,
) -> WordTables:
    """Input and output of a language model whose context model ends in vectors of ``width``.

    Args:
        vocabulary: Vocabulary entries, in order of falling frequency.
        width: Size of the context model's output vectors (m).
        cutoffs: The first word of each cluster but the first; none: one table, an ordinary softmax.
        div_value: Factor by which each further cluster's vectors are narrower.
        narrow: Width of the first cluster's vectors (n), ``width`` unless given.
        bias: Whether words and clusters have output biases.
        define: Arguments of :class:`DeFINE`: ``{"depth": 3, "expansion": 1024}``.
        embedding: Structure of the tables and its options.

    Raises:
        PhmrunError: Sizes and structures that do not go together.
    """
    structure = embedding or {}
    n = narrow or width
    if define is None:
        table = AdaptiveInput(vocabulary, width, cutoffs, div_value, width=n, **structure)
        return WordTables(table, None, AdaptiveSoftmax(width, vocabulary, bias=bias, tied=table), width)
    table = AdaptiveInput(vocabulary, n, cutoffs, div_value, **structure)
    settings = dict(define)
    reduced: int = settings["expansion"] if settings.get("reduce") is False else width
    deep = DeFINE(vocabulary, reduced, n, mapping=table, **settings)
    if n == width:
        return WordTables(table, deep, AdaptiveSoftmax(width, vocabulary, bias=bias, tied=table), reduced)
    if div_value != 1 and cutoffs:
        raise PhmrunError("narrow words under DeFINE need clusters of one width", hint="Set div_value to 1.")
    # The output maps its vectors to the words' own width, which the input leaves to DeFINE.
    wide = AdaptiveInput(vocabulary, width, cutoffs, div_value, width=n, **structure)
    wide.tables = table.tables
    return WordTables(table, deep, AdaptiveSoftmax(width, vocabulary, bias=bias, tied=wide), reduced)
