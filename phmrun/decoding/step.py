"""Interface between a model and the search: one target position per step, with an opaque state.

Shapes: ``batch`` sentences still being decoded, ``beam`` live hypotheses per sentence, ``vocabulary`` target tokens.
"""

from typing import Protocol, TypeVar

from torch import Tensor

State = TypeVar("State")

# Finished sentences are removed when they are at least this share of the batch: removal copies the state.
LEAVING_PART = 1 / 8


class StepDecoder(Protocol[State]):
    """Interface of a model that is decoded step by step.

    The search uses the latest state only, so a decoder may change a state in place. In every iteration the search calls
    ``step``, then ``select`` if enough sentences are finished, then ``reorder`` if any hypothesis moved.

    Results are independent of the batch if the logits of a sentence depend only on its source and its prefix.
    """

    def start(self, source: Tensor) -> State:
        """Encode sources and return the initial state, with one hypothesis per sentence.

        Args:
            source: ``[batch, source_length]``, padded on the right.
        """

    def step(self, tokens: Tensor, state: State) -> Tensor:
        """Read a token per hypothesis, and score the next token.

        The state is advanced in place.

        Args:
            tokens: Last token of each live hypothesis, ``[batch, beam]``; in the first call the
                beginning-of-sentence token, with beam 1.
            state: State to advance.

        Returns:
            Logits or log-probabilities ``[batch, beam, vocabulary]``; the search does not change them.
        """

    def reorder(self, state: State, beams: Tensor) -> State:
        """Return the state with hypotheses reordered within each sentence.

        Hypothesis ``k`` of sentence ``b`` continues hypothesis ``beams[b, k]``. The first call widens the beam from 1.
        The search skips calls without effect.

        Args:
            state: State to reorder.
            beams: Indices within each sentence, ``[batch, new_beam]``.
        """

    def select(self, state: State, sentences: Tensor) -> State:
        """Return the state of the sentences that are not finished.

        ``sentences`` are their increasing indices ``[kept]`` into the batch.
        """
