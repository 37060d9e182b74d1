"""Decoding any number of sources: sorted by length, in batches, with results in the order of the input."""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from phmrun.decoding.beam import beam_search
from phmrun.decoding.hypothesis import Hypothesis, Penalty
from phmrun.decoding.step import State, StepDecoder
from phmrun.errors import PhmrunError
from phmrun.progress import progress

Tokens = Sequence[int] | np.ndarray
Find = Callable[[list[int], list[int]], list[list[Hypothesis]]]
"""The best outputs of some of the sources, by their numbers and by the most tokens that each may have."""


def translate(
    decoder: StepDecoder[State],
    sources: Sequence[Tokens],
    *,
    beam: int,
    alpha: float,
    bos: int,
    eos: int,
    pad: int,
    nbest: int = 1,
    penalty: Penalty = "gnmt",
    max_length_ratio: float = 1.5,
    max_length_offset: int = 10,
    batch: int = 64,
    device: torch.device | str = "cpu",
    label: str = "translating",
) -> list[list[Hypothesis]]:
    """Translates all sources; how they are batched does not change the results.

    Args:
        decoder: The model.
        sources: Token numbers of each source, as the encoder takes them. An empty one has the empty output.
        beam: Live hypotheses per sentence; 1 is greedy search.
        alpha: Exponent of the length penalty; 0 ranks by log-probability.
        bos: The token that starts an output.
        eos: The token that ends an output.
        pad: The padding token.
        nbest: Hypotheses to return per sentence, at most ``beam``.
        penalty: The length penalty's form.
        max_length_ratio: Most target tokens per source token.
        max_length_offset: Target tokens allowed beyond that, the end counted.
        batch: Sentences decoded at a time.
        device: Where the decoder's weights are.
        label: What the progress display calls this.

    Returns:
        For each source its hypotheses, best first.

    Raises:
        PhmrunError: A setting is out of range.
    """

    def find(indices: list[int], limits: list[int]) -> list[list[Hypothesis]]:
        return beam_search(
            decoder,
            _padded([sources[index] for index in indices], pad).to(device),
            beam=beam,
            alpha=alpha,
            bos=bos,
            eos=eos,
            pad=pad,
            max_lengths=limits,
            nbest=nbest,
            penalty=penalty,
        )

    with torch.inference_mode():
        return by_length(sources, find, batch=batch, ratio=max_length_ratio, offset=max_length_offset, label=label)


def by_length(
    sources: Sequence[Tokens], find: Find, *, batch: int, ratio: float, offset: int, label: str
) -> list[list[Hypothesis]]:
    """The outputs of all sources in the order of the input, found in batches of about the same length.

    Args:
        sources: See :func:`translate`.
        find: What searches.
        batch: Sentences at a time.
        ratio: See :func:`max_length`.
        offset: See :func:`max_length`.
        label: What the progress display calls this.

    Raises:
        PhmrunError: There is no batch of that size.
    """
    if batch < 1:
        raise PhmrunError(f"a batch must have at least 1 sentence, not {batch}", where="decoding.batch")
    results = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
    with progress(label, len(sources), "sentences") as advance:
        for indices in _batches(sources, batch):
            found = find(indices, [max_length(len(sources[index]), ratio, offset) for index in indices])
            for index, hypotheses in zip(indices, found, strict=True):
                results[index] = hypotheses
            advance(len(indices))
    return results


def max_length(source_length: int, ratio: float, offset: int) -> int:
    """The most tokens to generate for a source: ``ratio * source_length + offset``, rounded down, at least 1."""
    return max(1, math.floor(ratio * source_length + offset))


def _batches(sources: Sequence[Tokens], size: int) -> Iterator[list[int]]:
    """Indices of the sources that are not empty, ``size`` at a time, longest first.

    The longest come first so that a lack of memory shows at once; equal lengths stay in the order of the input.
    """
    order = sorted((i for i in range(len(sources)) if len(sources[i])), key=lambda i: -len(sources[i]))
    for begin in range(0, len(order), size):
        yield order[begin : begin + size]


def _padded(sources: Sequence[Tokens], pad: int) -> Tensor:
    """``[batch, source_length]``, filled up on the right."""
    width = max(len(source) for source in sources)
    table = np.full((len(sources), width), pad, dtype=np.int64)
    for row, source in enumerate(sources):
        table[row, : len(source)] = source
    return torch.from_numpy(table)
