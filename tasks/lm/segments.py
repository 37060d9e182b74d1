"""Running text cut for a language model: streams read side by side, each one segment after the other.

Training cuts the text into as many equal streams as are read side by side, and reads all of them from their beginning
again in each epoch. Which segment a micro-batch is depends on the seed and its number alone.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phmrun.errors import ExitCode, PhmrunError

SHORTEST = 5  # tokens of the shortest segment of random length
SPREAD = 5.0  # standard deviation of a segment's random length, in tokens (Merity et al. 2018, section 5)
HALVED = 0.05  # share of the segments whose length is drawn around half the usual one (ibid.)


class Segment(NamedTuple):
    """What one micro-batch reads of its streams."""

    start: int  # where in each stream it begins
    length: int  # tokens of each stream that are read, and predicted
    first: bool  # whether it begins the streams, before which there is nothing to remember
    window_units: int  # tokens predicted in the whole accumulation window, over all processes
    pace: float  # mean length of the window's segments in parts of the usual length; 1 where lengths are not random


@dataclass(frozen=True)
class SegmentPlan:
    """How a text is cut."""

    tokens: int  # tokens of the text
    streams: int  # streams of each process
    length: int  # tokens of a segment
    random: bool = False  # whether lengths vary around it (Merity et al. 2018)
    seed: int = 0  # seed of the lengths
    accumulate: int = 1  # micro-batches of one process per optimizer step
    world: int = 1

    def check(self) -> None:
        """Refuses a text too short for the streams.

        Raises:
            PhmrunError: (exit 3) A stream would have nothing to predict.
        """
        if self.predicted < 1:
            what = f"{self.tokens:,} words of training text are too few for {self.streams} streams side by side"
            raise PhmrunError(what, where="batch.size", code=ExitCode.DATA)

    @property
    def stream_length(self) -> int:
        """Tokens of each stream; what does not divide evenly at the text's end is not read."""
        return self.tokens // (self.streams * self.world)

    @property
    def predicted(self) -> int:
        """Tokens of each stream that are predicted: all but its first."""
        return self.stream_length - 1

    def starts(self, epoch: int) -> NDArray[np.int64]:
        """Where an epoch's segments begin, in order.

        Random lengths are around the usual one, now and then around half of it, never less than :data:`SHORTEST`. The
        raw numbers of the generator are taken, whose sequence NumPy keeps from version to version.
        """
        if not self.random:
            return np.arange(0, self.predicted, self.length, dtype=np.int64)
        draws = np.random.PCG64([self.seed, epoch]).random_raw((3, self.predicted // SHORTEST + 1))
        half, one, two = (draws >> np.uint64(11)) * 2.0**-53  # [0, 1)
        normal = np.sqrt(-2.0 * np.log1p(-one)) * np.cos(2.0 * np.pi * two)
        centre = np.where(half < HALVED, self.length / 2, self.length)
        ends = np.cumsum(np.maximum((centre + SPREAD * normal).astype(np.int64), SHORTEST))
        return np.concatenate([np.zeros(1, np.int64), ends[ends < self.predicted]])

    def segments(self, epoch: int) -> list[tuple[int, int]]:
        """Begin and length of an epoch's segments."""
        starts = self.starts(epoch)
        lengths = np.diff(np.append(starts, self.predicted))
        return list(zip(starts.tolist(), lengths.tolist(), strict=True))

    def batches_in(self, epoch: int) -> int:
        """Micro-batches of an epoch."""
        return len(self.starts(epoch))

    def steps_in_epochs(self, epochs: int) -> int:
        """Optimizer steps until so many epochs are complete; the last step may reach into the next."""
        total = sum(self.batches_in(epoch) for epoch in range(epochs)) if self.random else epochs * self.batches_in(0)
        return -(-total // self.accumulate)

    def from_step(self, step: int) -> Iterator[Segment]:
        """The micro-batches after ``step`` optimizer steps, without end."""
        epoch, index = 0, step * self.accumulate
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
    """Begin and end of so many equal parts of a text, or fewer, none empty; lengths are at most one token apart."""
    streams = max(min(streams, tokens), 1)
    bounds = [tokens * part // streams for part in range(streams + 1)]
    return list(itertools.pairwise(bounds))
