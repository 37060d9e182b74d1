"""What every language model offers, which reads a segment of text and can go on from there; and its word vectors."""

from typing import NamedTuple, Protocol, cast

from torch import Tensor

from phmrun.layers import AdaptiveInput, AdaptiveSoftmax, DeFINE, build_embedding
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.network import Structures
from phmrun.registry import EMBEDDINGS
from phmrun.tasks.lm.config import LanguageModelOptions

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
    options: LanguageModelOptions, vocabulary: int, structures: Structures, *, any_width: bool = False
) -> WordTables:
    """Build input and output of a language model whose context model ends in vectors of the width m.

    Args:
        options: Section of the configuration: width, tying and output biases are read. An untied output has the same
            clusters of words.
        vocabulary: Entries of the vocabulary, in order of falling frequency.
        structures: Structure or embedding of the word vectors, ``embedding``, and structure of the output's own maps.
        any_width: True if the context model reads vectors of any size, as an LSTM does.
    """
    width, embedding = options.width, structures.get("embedding", {})
    if embedding.get("structure", "dense") in EMBEDDINGS:
        table = build_embedding(vocabulary, width, any_width=any_width, **embedding)
    else:
        table = AdaptiveInput(vocabulary, width, (), **embedding)
    define = table if isinstance(table, DeFINE) else None
    words = cast(AdaptiveInput, table if define is None else define.mapping)
    tied, output = words if options.tie else None, structures.get("output", {})
    softmax = AdaptiveSoftmax(
        width, vocabulary, words.cutoffs, words.div_value, options.output_bias, tied=tied, **output
    )
    return WordTables(words, define, softmax, cast(int, table.embedding_dim))
