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
        """Encodes a batch and returns the state in front of the first target token, with one beam per sentence.

        Args:
            source: Token numbers ``[batch, source_length]``, filled up with the padding token on the right.
        """
        ...

    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Reads one token per hypothesis, advances the state in place, and scores the next token.

        Args:
            tokens: ``[batch, beam]``, the last token of each live hypothesis; the first call has ``beam`` 1 and
                holds the beginning-of-sentence token.
            state: The state that goes with these hypotheses.

        Returns:
            Logits or log-probabilities ``[batch, beam, vocabulary]``; the search leaves them untouched.
        """
        ...

    def reorder(self, state: State, beams: Tensor) -> State:
        """The state in which hypothesis ``k`` of sentence ``b`` continues the former hypothesis ``beams[b, k]``.

        Args:
            state: The state after ``step``.
            beams: ``[batch, new_beam]``, indices within the sentence. Its width may differ from the state's: the first
                call widens one beam to all of them. Not called where it would change nothing.
        """
        ...

    def select(self, state: State, sentences: Tensor) -> State:
        """The state of these sentences alone; the others are finished.

        Args:
            state: The state after ``step``.
            sentences: ``[kept]``, increasing indices into the state's batch.
        """
        ...
