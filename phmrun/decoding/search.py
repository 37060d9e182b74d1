"""Decoding any number of sources: sorted by length, in batches, with results in the order of the input."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from phmrun.decoding.beam import Hypothesis, Penalty, beam_search
from phmrun.decoding.step import State, StepDecoder
from phmrun.decoding.stepwise import stepwise_search
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

    An empty source has the empty output. ``beam`` to ``penalty`` are those of :func:`beam_search`; an output has at
    most ``max_length_ratio`` tokens per source token and ``max_length_offset`` beyond that, the end counted. ``batch``
    sentences are decoded at a time, on the ``device`` of the decoder's weights.

    Returns:
        For each source its hypotheses, best first.

    Raises:
        PhmrunError: A setting is out of range.
    """

    def find(indices: list[int], limits: list[int]) -> list[list[Hypothesis]]:
        padded = np.full((len(indices), max(len(sources[index]) for index in indices)), pad, dtype=np.int64)
        for row, index in zip(padded, indices, strict=True):
            row[: len(sources[index])] = sources[index]
        tokens = torch.from_numpy(padded).to(device)
        if penalty == "steps":
            ends: dict[str, Any] = {"bos": bos, "eos": eos, "max_lengths": limits}
            return stepwise_search(decoder, tokens, beam=beam, alpha=alpha, nbest=nbest, **ends)
        search = partial(beam_search, decoder, tokens, beam=beam, alpha=alpha, nbest=nbest, penalty=penalty)
        return search(bos=bos, eos=eos, pad=pad, max_lengths=limits)

    with torch.inference_mode():
        return by_length(sources, find, batch=batch, ratio=max_length_ratio, offset=max_length_offset, label=label)


def by_length(
    sources: Sequence[Tokens], find: Find, *, batch: int, ratio: float, offset: int, label: str
) -> list[list[Hypothesis]]:
    """The outputs that ``find`` finds of all sources, in the order of the input, in batches of about the same length.

    Raises:
        PhmrunError: There is no batch of that size.
    """
    if batch < 1:
        raise PhmrunError(f"a batch must have at least 1 sentence, not {batch}", where="decoding.batch")
    results = [[Hypothesis([], 0.0, 0.0)] for _ in sources]
    # The longest come first so that a lack of memory shows at once; equal lengths stay in the order of the input.
    order = sorted((i for i in range(len(sources)) if len(sources[i])), key=lambda i: -len(sources[i]))
    with progress(label, len(sources), "sentences") as advance:
        for begin in range(0, len(order), batch):
            indices = order[begin : begin + batch]
            found = find(indices, [max_length(len(sources[index]), ratio, offset) for index in indices])
            for index, hypotheses in zip(indices, found, strict=True):
                results[index] = hypotheses
            advance(len(indices))
    return results


def max_length(source_length: int, ratio: float, offset: int) -> int:
    """The most tokens to generate for a source: ``ratio * source_length + offset``, rounded down, at least 1."""
    return max(1, math.floor(ratio * source_length + offset))
