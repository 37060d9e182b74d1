"""What every language model of ours offers: it reads a segment of text and can go on from there."""

from typing import NamedTuple, Protocol

from torch import Tensor

from phmrun.layers import AdaptiveSoftmax
from phmrun.layers.cross_entropy import CrossEntropy

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
