"""Batched decoding of any number of sources, sorted by length.

Results keep the input order.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from phmrun.decoding.beam import Hypothesis, Penalty, beam_search
from phmrun.decoding.step import State, StepDecoder
from phmrun.decoding.stepwise import stepwise_search
from phmrun.progress import progress
from phmrun.text.vocabulary import PAD

Tokens = Sequence[int] | np.ndarray
Find = Callable[[list[int], list[int]], list[list[Hypothesis]]]
"""Function of source indices and output length limits that returns the hypotheses of each source."""


def translate(
    decoder: StepDecoder[State],
    sources: Sequence[Tokens],
    *,
    beam: int,
    alpha: float,
    nbest: int = 1,
    penalty: Penalty = "gnmt",
    max_length_ratio: float = 1.5,
    max_length_offset: int = 10,
    batch: int = 64,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """Translate all sources, in inference mode.

    Batching does not change the results. An empty source has a single, empty output with score 0.

    Args:
        decoder: Model.
        sources: Source tokens of each sentence.
        beam: Live hypotheses per sentence; 1 is greedy search.
        alpha: Exponent of the length penalty.
        nbest: Hypotheses to return per sentence, at most ``beam``.
        penalty: Form of the length penalty; "steps" uses :func:`~phmrun.decoding.stepwise.stepwise_search`.
        max_length_ratio: Largest number of output tokens per source token, the end token included.
        max_length_offset: Number of additional output tokens.
        batch: Sentences decoded at a time.
        device: Device of the decoder's weights.

    Returns:
        For each source its hypotheses, best first.
    """

    def find(indices: list[int], limits: list[int]) -> list[list[Hypothesis]]:
        """Return the hypotheses of the sources with these indices, decoded as one batch."""
        padded = np.full((len(indices), max(len(sources[index]) for index in indices)), PAD, dtype=np.int64)
        for row, index in zip(padded, indices, strict=True):
            row[: len(sources[index])] = sources[index]
        tokens = torch.from_numpy(padded).to(device)
        if penalty == "steps":
            return stepwise_search(decoder, tokens, beam=beam, alpha=alpha, nbest=nbest, max_lengths=limits)
        return beam_search(decoder, tokens, beam=beam, alpha=alpha, nbest=nbest, penalty=penalty, max_lengths=limits)

    with torch.inference_mode():
        return by_length(sources, find, batch, max_length_ratio, max_length_offset)


def by_length(
    sources: Sequence[Tokens], find: Find, batch: int, max_length_ratio: float, max_length_offset: int
) -> list[list[Hypothesis]]:
    """Decode all sources in batches of similar length.

    Return the results in the input order. Batches go from the longest source to the shortest. An empty source is not
    decoded: it has a single, empty output with score 0.

    Args:
        sources: Source tokens of each sentence.
        find: Function that decodes a batch.
        batch: Sentences decoded at a time, at least 1.
        max_length_ratio: See :func:`max_length`.
        max_length_offset: See :func:`max_length`.
    """
    results = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
    # Longest first, so that a lack of memory shows at once; sources of equal length keep their order.
    order = sorted((i for i in range(len(sources)) if len(sources[i])), key=lambda i: -len(sources[i]))
    with progress("translating", len(order), "sentences") as advance:
        for begin in range(0, len(order), batch):
            indices = order[begin : begin + batch]
            lengths = [max_length(len(sources[index]), max_length_ratio, max_length_offset) for index in indices]
            outputs = find(indices, lengths)
            for index, hypotheses in zip(indices, outputs, strict=True):
                results[index] = hypotheses
            advance(len(indices))
    return results


def max_length(source_length: int, ratio: float, offset: int) -> int:
    """Return the length limit of an output: ratio · source_length + offset.

    Rounded down, at least 1.
    """
    return max(1, math.floor(ratio * source_length + offset))
