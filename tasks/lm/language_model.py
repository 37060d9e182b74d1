"""What every language model offers, which reads a segment of text and can go on from there; and its word vectors."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, cast

from torch import Tensor

from phmrun.layers import AdaptiveInput, AdaptiveSoftmax, DeFINE, build_embedding
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.registry import EMBEDDINGS

State = tuple[Tensor, ...]
"""What a model remembers of the text before, detached; the batch is every tensor's first dimension."""


class Reading(NamedTuple):
    """What a model makes of a segment of text."""

    # vectors that predict the next words, `[batch, length, width]`; in training some entries are dropped
    hidden: Tensor
    outputs: Tensor  # the same before that dropout
    state: State  # what to read the text that follows with


class LanguageModel(Protocol):
    """A network that predicts the next word."""

    output: AdaptiveSoftmax

    def __call__(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Reads ``tokens [batch, length]`` after the text that ``state`` remembers; ``None``: at a beginning."""

    def loss(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Summed over ``targets``, in nats; ``hidden`` has one dimension more."""


class WordTables(NamedTuple):
    """Input and output of a language model."""

    words: AdaptiveInput  # the words' own vectors, by cluster of frequency
    define: DeFINE | None  # what makes the context model's inputs of them; `None`: they are the inputs
    output: AdaptiveSoftmax  # the softmax
    width: int  # size of an input vector of the context model


def build_word_tables(
    vocabulary: int,
    width: int,
    *,
    embedding: Mapping[str, Any] | None = None,
    output: Mapping[str, Any] | None = None,
    tie: bool = True,
    bias: bool = False,
    any_width: bool = False,
) -> WordTables:
    """Input and output of a language model whose context model ends in vectors of ``width``.

    Args:
        vocabulary: Vocabulary entries, in order of falling frequency.
        width: Size of the context model's output vectors (m), and of its input vectors.
        embedding: A structure or an embedding and its options: ``{"structure": "define", "depth": 3}``.
        output: Structure of the output's own maps and its options.
        tie: Whether the output shares the words' own vectors; untied, it has the same clusters.
        bias: Whether words and clusters have output biases.
        any_width: Whether the context model reads vectors of any size, as an LSTM does.
    """
    arguments = dict(embedding or {})
    if arguments.get("structure", "dense") in EMBEDDINGS:
        table = build_embedding(vocabulary, width, any_width=any_width, **arguments)
    else:
        table = AdaptiveInput(vocabulary, width, (), **arguments)
    define = table if isinstance(table, DeFINE) else None
    words = cast(AdaptiveInput, table if define is None else define.mapping)
    tied, options = words if tie else None, output or {}
    softmax = AdaptiveSoftmax(width, vocabulary, words.cutoffs, words.div_value, bias, tied=tied, **options)
    return WordTables(words, define, softmax, cast(int, table.embedding_dim))
