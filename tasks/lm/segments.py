"""Segments of running text: parallel streams, each read one segment after the other.

Training splits the text into equal streams and reads them from the beginning in each epoch. The segment of a
micro-batch depends only on the seed and the batch's number.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.errors import counted, data_error

SHORTEST = 5  # tokens of the shortest segment of random length
SPREAD = 5.0  # standard deviation of a segment's random length, in tokens (Merity et al. 2018, section 5)
HALVED = 0.05  # share of the segments whose length is drawn around half the usual one (ibid.)


class Segment(NamedTuple):
    """Segment of the streams that a micro-batch reads."""

    start: int  # first position in each stream
    length: int  # tokens read, and predicted, of each stream
    first: bool  # True at the beginning of the streams, where the state is empty
    window_units: int  # tokens predicted in the whole accumulation window, over all processes
    pace: float  # mean length of the window's segments / usual length; 1 unless lengths are random


@dataclass(frozen=True)
class SegmentPlan:
    """Division of a text into segments."""

    tokens: int  # tokens of the text
    streams: int  # streams of each process
    length: int  # tokens of a segment
    random: bool = False  # vary lengths around it (Merity et al. 2018)
    seed: int = 0  # seed of the lengths
    accumulate: int = 1  # micro-batches of one process per optimizer step
    world: int = 1
    start_step: int = 0  # optimizer steps after which iteration starts

    def check(self) -> None:
        """Check that the text is long enough for the streams.

        Raises:
            PhmrunError: (exit 3) A stream would have nothing to predict.
        """
        if self.predicted < 1:
            what = f"{counted(self.tokens, 'word')} of training text cannot fill {self.streams} parallel streams"
            raise data_error(what, "batch.size")

    @property
    def stream_length(self) -> int:
        """Tokens of each stream.

        The remainder at the text's end is not read.
        """
        return self.tokens // (self.streams * self.world)

    @property
    def predicted(self) -> int:
        """Tokens of each stream that are predicted: all except its first."""
        return self.stream_length - 1

    def starts(self, epoch: int) -> NDArray[np.int64]:
        """Return the first positions of an epoch's segments, in order.

        Random lengths are normal around the usual one, or with probability :data:`HALVED` around half of it, at least
        :data:`SHORTEST`. They are computed from PCG64's raw numbers, whose sequence NumPy keeps stable. The first is 0.
        Lengths depend on seed and epoch alone.
        """
        if not self.random:
            return np.arange(0, self.predicted, self.length, dtype=np.int64)
        draws = np.random.PCG64([self.seed, epoch]).random_raw((3, self.predicted // SHORTEST + 1))
        half, radius, angle = (draws >> np.uint64(11)) * 2.0**-53  # [0, 1)
        normal = np.sqrt(-2.0 * np.log1p(-radius)) * np.cos(2.0 * np.pi * angle)  # Box–Muller
        centre = np.where(half < HALVED, self.length / 2, self.length)
        ends = np.cumsum(np.maximum((centre + SPREAD * normal).astype(np.int64), SHORTEST))
        return np.concatenate([np.zeros(1, np.int64), ends[ends < self.predicted]])

    def segments(self, epoch: int) -> list[tuple[int, int]]:
        """Return start and length of each segment of an epoch.

        The last one may be shorter.
        """
        starts = self.starts(epoch)
        lengths = np.diff(np.append(starts, self.predicted))
        return list(zip(starts.tolist(), lengths.tolist(), strict=True))

    def batches_in(self, epoch: int) -> int:
        """Return the number of micro-batches of an epoch."""
        return len(self.starts(epoch))

    def steps_in_epochs(self, epochs: int) -> int:
        """Return the optimizer steps that complete this many epochs.

        A last, partial step counts as one.
        """
        total = sum(self.batches_in(epoch) for epoch in range(epochs)) if self.random else epochs * self.batches_in(0)
        return -(-total // self.accumulate)

    def __iter__(self) -> Iterator[Segment]:
        """Yield the micro-batches after ``start_step`` optimizer steps, endlessly.

        They are the same for all processes. A window may reach into the next epoch.
        """
        epoch, index = 0, self.start_step * self.accumulate
        if not self.random:
            epoch, index = divmod(index, self.batches_in(0))
        while index >= (size := self.batches_in(epoch)):
            epoch, index = epoch + 1, index - size
        later = itertools.chain.from_iterable(map(self.segments, itertools.count(epoch + 1)))
        endless = itertools.chain(self.segments(epoch)[index:], later)
        while True:
            window = list(itertools.islice(endless, self.accumulate))
            total = sum(length for _, length in window)
            units = total * self.streams * self.world
            pace = total / (self.accumulate * self.length) if self.random else 1.0
            for start, length in window:
                yield Segment(start, length, start == 0, units, pace)


def parts(tokens: int, streams: int) -> list[tuple[int, int]]:
    """Return start and end of equal parts of a text.

    Fewer than ``streams`` if the text has fewer tokens; lengths differ by at most one token. An empty text has one
    empty part.
    """
    streams = max(min(streams, tokens), 1)
    return list(itertools.pairwise(tokens * part // streams for part in range(streams + 1)))
