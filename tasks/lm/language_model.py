"""Interface of language models, and their word tables."""

from typing import Any, NamedTuple, Protocol, cast

from torch import Tensor

from phmrun.layers import AdaptiveInput, AdaptiveSoftmax, DeFINE, build_embedding
from phmrun.layers.cross_entropy import CrossEntropy
from phmrun.layers.network import Structures
from phmrun.registry import EMBEDDINGS
from phmrun.tasks.lm.config import LanguageModelOptions

State = tuple[Any, ...]
"""Detached state of a model after some text; in training, tensors whose first dimension is the batch."""


class Reading(NamedTuple):
    """Output of a model for a segment of text."""

    # vectors that predict the next words, `[batch, length, width]`, after dropout
    hidden: Tensor
    outputs: Tensor  # the same before dropout
    state: State  # state for the following text


class LanguageModel(Protocol):
    """Network that predicts the next word."""

    output: AdaptiveSoftmax

    def __call__(self, tokens: Tensor, state: State | None = None) -> Reading:
        """Read ``tokens [batch, length]`` after the text of ``state``.

        ``None`` stands for the beginning of a text.
        """

    def loss(self, hidden: Tensor, targets: Tensor) -> CrossEntropy:
        """Return the loss summed over ``targets […]``, in nats.

        Hidden vectors are ``[…, width]``.
        """


def build_word_tables(
    options: LanguageModelOptions, vocabulary: int, structures: Structures, *, any_width: bool = False
) -> tuple[AdaptiveInput, DeFINE | None, AdaptiveSoftmax, int]:
    """Build input and output layers of a language model.

    Its last outputs have the width m. A dense or structured ``embedding`` is one table without clusters; other kinds
    are built by their names.

    Args:
        options: Section of the configuration: width, tying and output biases are read. An untied output has the same
            clusters of words.
        vocabulary: Entries of the vocabulary, in order of falling frequency.
        structures: Options of ``embedding``, the word vectors, and of ``output``, the output's own maps.
        any_width: True if the context model reads vectors of any size, as an LSTM does.

    Returns:
        Word vectors by cluster of frequency; DeFINE's map from them to inputs, None if they are the inputs; the
        softmax; and the size of an input vector.

    Raises:
        PhmrunError: (exit 2) Sizes and structures do not match.
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
    return words, define, softmax, cast(int, table.embedding_dim)
