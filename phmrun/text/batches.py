"""Length-bucketed batches whose order is a pure function of (seed, epoch).

Sentences are sorted by length classes, and the sorted classes are cut into batches once. The number of batches and the
sentences in each therefore depend on the corpus and the budget alone. An epoch only decides which sentences of a class
fill its places, and the order of the batches. The epoch of a position is a division, so resuming in epoch 50 costs as
much as starting.

With ``buckets``, a class is one of a few ranges of length, with batches of its own. A small corpus then has at least as
many batches as buckets, far below the budget, and each batch is drawn from all sentences of its range.

Sizes include the end token: a sentence of k tokens counts k + 1. In tokens, a batch of r pairs costs r × the longest
sentence of both sides, padding included, like fairseq's ``max-tokens``. A pair that exceeds the budget alone is a batch
of its own.

Random numbers come from NumPy's ``PCG64.random_raw``, whose stream for a seed NumPy guarantees (NEP 19). The
``Generator`` methods, such as ``permutation``, have no such guarantee and are not used.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Unit = Literal["tokens", "sentences"]
Indices = NDArray[np.int32]
Item = TypeVar("Item")

SOURCE_CLASS = 2
"""Source lengths (tokens) in one class. Wider classes mix sentences more from epoch to epoch, and pad more."""


class BatchPlan:
    """Division of a corpus into batches, and their content in each epoch.

    Args:
        source_lengths: Tokens of each source sentence, without the end token, [sentences].
        target_lengths: The same of the target side, [sentences].
        unit: What ``size`` counts: ``tokens`` (padded, of the longer side) or ``sentences``.
        size: Most tokens, or sentences, in one batch.
        weights: Weight of each sentence in the loss, [sentences]; by default its target tokens and the end token.
        buckets: Ranges of length with batches of their own, chosen for the least padding; 0: none. A range of n
            sentences up to ℓ tokens long has ⌊nℓ/size⌋ batches, at least one, so that a batch may exceed ``size``.
            ``unit`` must be "tokens".
        ordered: Batches of consecutive sentences in the order of the file, in every epoch alike.
    """

    def __init__(
        self,
        source_lengths: ArrayLike,
        target_lengths: ArrayLike,
        *,
        unit: Unit,
        size: int,
        weights: ArrayLike | None = None,
        buckets: int = 0,
        ordered: bool = False,
    ) -> None:
        source = np.asarray(source_lengths, dtype=np.int32)
        target = np.asarray(target_lengths, dtype=np.int32)
        # The class bound replaces the length, so that the cut does not depend on which sentences fill a class.
        bound = -(-source // SOURCE_CLASS)
        classes = np.lexsort((bound, target))
        self._classes = np.empty(source.size, dtype=np.int32)
        bound, longest = bound[classes], target[classes]
        steps = (np.diff(bound) != 0) | (np.diff(longest) != 0)
        self._classes[classes] = np.concatenate([np.zeros(1, np.int32), np.cumsum(steps, dtype=np.int32)])
        costs = np.maximum(bound * SOURCE_CLASS, longest) + 1
        if buckets:
            self._classes, self.starts = _bucketed(np.maximum(source, target) + 1, size, buckets)
        else:
            self.starts = _cuts(costs, size) if unit == "tokens" else np.arange(0, source.size, size)
        self.ordered = ordered
        self._weights = target.astype(np.int64) + 1 if weights is None else np.asarray(weights, dtype=np.int64)

    def __len__(self) -> int:
        """Number of batches in every epoch."""
        return len(self.starts)

    def epoch(self, seed: int, epoch: int) -> tuple[list[Indices], NDArray[np.int64]]:
        """Return the batches of one epoch in order.

        Each sentence is in exactly one of them. Sentences of one length class are shuffled among its places, and the
        batches are shuffled, by (seed, epoch) alone. An ordered plan returns the same batches in every epoch.

        Returns:
            Sentence indices of each batch, and the weight of each batch: by default its target tokens, unpadded, end
            tokens included.
        """
        order, turns = np.arange(len(self._classes), dtype=np.int32), np.arange(len(self))
        if not self.ordered:
            stream = np.random.PCG64([seed, epoch])
            shuffled = np.argsort(stream.random_raw(len(order)), kind="stable").astype(np.int32)
            order = shuffled[np.argsort(self._classes[shuffled], kind="stable")]
            turns = np.argsort(stream.random_raw(len(turns)), kind="stable")
        weights = np.add.reduceat(self._weights[order], self.starts)
        ends = np.append(self.starts[1:], len(order))
        return [order[self.starts[turn] : ends[turn]] for turn in turns], weights[turns]


class Batch(NamedTuple):
    """A micro-batch of an endless stream.

    Args:
        position: Place in the stream of all ranks, from 0.
        indices: Indices of its sentences.
        window_units: Total weight of its accumulation window over all ranks (by default target tokens, unpadded, end
            tokens included). The sum of losses is divided by it, so that every unit weighs the same.
    """

    position: int
    indices: Indices
    window_units: int


class BatchStream:
    """Endless stream of micro-batches over all epochs, from any position, for one process of ``world``.

    An optimizer step takes one window of ``accumulate`` × ``world`` consecutive micro-batches; a process gets every
    ``world``-th of them. A window may reach into the next epoch, so windows are always complete. Iterating again gives
    the same batches. With a data loader whose dataset turns a :class:`Batch` into tensors::

        DataLoader(dataset, sampler=stream, batch_size=None, collate_fn=..., num_workers=2)

    Args:
        plan: The corpus, cut into batches.
        seed: Seed of the experiment.
        start: Position of the first micro-batch in the stream of all ranks. To resume after k optimizer steps, k ×
            ``accumulate`` × ``world``.
        accumulate: Micro-batches of one process per optimizer step.
        rank: Number of this process, from 0.
        world: Number of processes.
    """

    def __init__(
        self, plan: BatchPlan, *, seed: int, start: int = 0, accumulate: int = 1, rank: int = 0, world: int = 1
    ) -> None:
        self.plan = plan
        self.seed = seed
        self.start = start
        self.rank = rank
        self.world = world
        self.window = accumulate * world

    def __iter__(self) -> Iterator[Batch]:
        """Yield this process's micro-batches from ``start`` on, endlessly."""
        first = self.start - self.start % self.window
        stream = self._from(first)
        while True:
            window = [next(stream) for _ in range(self.window)]
            total = sum(weight for _, weight in window)
            for position, (indices, _) in enumerate(window, first):
                if position >= self.start and position % self.world == self.rank:
                    yield Batch(position, indices, total)
            first += self.window

    def steps_in_epochs(self, epochs: float) -> int:
        """Return the optimizer steps that complete ``epochs`` epochs.

        It is ``epochs`` × batches per epoch / (``accumulate`` × ``world``), rounded up.
        """
        return -int(-epochs * len(self.plan) // self.window)

    def _from(self, position: int) -> Iterator[tuple[Indices, int]]:
        """Yield (indices, weight) of the micro-batches of all ranks.

        They begin at ``position`` of the endless stream and go on from epoch to epoch. A weight is that of one batch.
        """
        epoch, skip = divmod(position, len(self.plan))
        while True:
            rows, weights = self.plan.epoch(self.seed, epoch)
            yield from zip(rows[skip:], weights[skip:].tolist(), strict=True)
            epoch, skip = epoch + 1, 0


def chunks(stream: Iterable[Item], batch: int, usual: int) -> Iterator[list[Item]]:
    """Yield the items of a stream in lists that a predictor sorts by length.

    They have ``usual`` items, or those of a larger batch; single ones if ``batch`` is 1.
    """
    rest, size = iter(stream), 1 if batch == 1 else max(usual, batch)
    while chunk := list(islice(rest, size)):
        yield chunk


def evaluation_batches(
    source_lengths: ArrayLike,
    target_lengths: ArrayLike | None = None,
    *,
    unit: Unit,
    size: int,
    rank: int = 0,
    world: int = 1,
) -> list[Indices]:
    """Return batches for validation and decoding, longest sentences first.

    Each sentence is in one batch of one rank. The list is empty without sentences, and may be shorter on some ranks.

    Args:
        source_lengths: Tokens of each source sentence, without the end token, [sentences].
        target_lengths: The same of the target side; None if there is none.
        unit: What ``size`` counts: ``tokens`` (padded, of the longer side) or ``sentences``.
        size: Most tokens, or sentences, in one batch.
        rank: Number of this process, which gets every ``world``-th batch; none is duplicated to balance processes.
        world: Number of processes.
    """
    source = np.asarray(source_lengths, dtype=np.int32)
    if not source.size:
        return []
    costs = source if target_lengths is None else np.maximum(source, np.asarray(target_lengths, dtype=np.int32))
    order = np.argsort(-costs, kind="stable").astype(np.int32)
    starts = _cuts(costs[order] + 1, size) if unit == "tokens" else np.arange(0, source.size, size)
    return np.split(order, starts[1:])[rank::world]


def _bucketed(costs: NDArray[np.int32], size: int, buckets: int) -> tuple[Indices, NDArray[np.int64]]:
    """Return the bucket of each sentence, and the first row of each batch of the sentences sorted by bucket.

    Buckets are ranges of length with the least padding. A bucket of n sentences up to ℓ tokens long has ⌊nℓ/size⌋
    batches, at least one, whose numbers of sentences differ by at most one. A batch may therefore exceed ``size``. The
    rule is that of tdozat/Parser-v2, parser/dataset.py:106. Its search for the ranges (parser/misc/bucketer.py) is
    local; this one is exact.
    """
    lengths, of_sentence, counts = np.unique(costs, return_inverse=True, return_counts=True)
    last = _least_padding(lengths, counts, buckets)
    classes = np.searchsorted(last, of_sentence).astype(np.int32)
    starts, first = [], 0
    for end, number in zip(last, np.bincount(classes), strict=True):
        batches = min(number, max(1, int(number) * int(lengths[end]) // size))
        starts.append(first + np.arange(batches) * number // batches)
        first += number
    return classes, np.concatenate(starts).astype(np.int64)


def _least_padding(lengths: NDArray[Any], counts: NDArray[Any], buckets: int) -> NDArray[np.int64]:
    """Return the index of each bucket's greatest length, with the least tokens including padding.

    ``lengths`` are distinct and rising, ``counts`` are their sentences. There are at most as many buckets as lengths.
    The best division of the first lengths into k buckets follows from those into k - 1.
    """
    rows = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    # tokens of one bucket from each length to each later one, padded; none where the range is empty
    tokens = np.where(np.tri(len(lengths)).T, (rows[1:] - rows[:-1, None]) * lengths, np.inf)
    best, choices = tokens[0], []
    for _ in range(min(buckets, len(lengths)) - 1):
        totals = np.concatenate([[np.inf], best[:-1]])[:, None] + tokens
        choices.append(totals.argmin(0))
        best = totals.min(0)
    last = [len(lengths) - 1]
    for choice in reversed(choices):
        last.append(choice[last[-1]] - 1)
    return np.array(last[::-1], dtype=np.int64)


def _cuts(costs: NDArray[np.int32], size: int) -> NDArray[np.int64]:
    """Return the first row of each batch of consecutive rows.

    Batches are filled greedily while rows × highest cost ≤ ``size``. A batch has at least one row.
    """
    starts, at, total = [], 0, len(costs)
    while at < total:
        starts.append(at)
        reach = costs[at : at + max(1, size // int(costs[at]))]
        padded = np.maximum.accumulate(reach).astype(np.int64) * np.arange(1, len(reach) + 1)
        over = int(np.argmax(padded > size)) if padded[-1] > size else len(reach)
        at += max(1, over)
    return np.array(starts, dtype=np.int64)
