"""What a model offers to the search: one target position at a time, over an opaque state.

Shapes: ``batch`` sentences still being decoded, ``beam`` live hypotheses per sentence, ``vocabulary`` target tokens.
"""

from typing import Protocol, TypeVar

from torch import Tensor

State = TypeVar("State")

# Finished sentences leave the batch when they are at least this part of it: leaving costs a copy of the state.
LEAVING_PART = 1 / 8


class StepDecoder(Protocol[State]):
    """A model seen from the search.

    A state belongs to the last call that returned it: the search never uses an older one again, so a decoder may
    change a state in place. In every pass through its loop the search calls ``step``, then ``select`` if enough
    sentences are finished, then ``reorder`` if any hypothesis moved.

    For results that do not depend on the batch, the logits of a sentence must depend on nothing but its own source and
    its own prefix.
    """

    def start(self, source: Tensor) -> State:
        """Encodes ``[batch, source_length]``, filled up with the padding token on the right.

        Returns the state in front of the first target token, with one beam per sentence.
        """

    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Reads one token per hypothesis, advances the state in place, and scores the next token.

        ``[batch, beam]``, the last token of each live hypothesis (in the first call the beginning-of-sentence token of
        a single beam) ``-> [batch, beam, vocabulary]``, logits or log-probabilities, which the search leaves untouched.
        """

    def reorder(self, state: State, beams: Tensor) -> State:
        """The state in which hypothesis ``k`` of sentence ``b`` continues the former hypothesis ``beams[b, k]``.

        ``beams [batch, new_beam]`` are indices within the sentence. The first call widens one beam to all of them. Not
        called where it would change nothing.
        """

    def select(self, state: State, sentences: Tensor) -> State:
        """The state of these sentences alone, ``[kept]`` increasing indices into its batch; the others are finished."""
