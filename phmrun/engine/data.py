"""What every task's data module offers to the rest of the runner."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol, Self

from phmrun.files import sha256_of
from phmrun.ledger.data import Split


class Vocabulary(Protocol):
    """What turns a task's text into numbers; it travels in the run directory."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """What the network is built for."""

    def save(self, directory: Path) -> None:
        """Writes it."""

    @classmethod
    def load(cls, directory: Path) -> Self:
        """Reads what ``save`` wrote."""


class DataModule:
    """Data of one experiment: where they come from, how they are batched, what is to be known about them.

    Attributes:
        files: What belongs to each split; a split that is there can be scored.
        start_step: Optimizer steps already done; the first training batch is the one after them.
        unit: What losses are averaged over, in the plural: "tokens".
        trainer: Lightning's trainer while it trains on the data, else ``None``.
    """

    unit = "items"
    trainer: Any = None

    def __init__(self) -> None:
        self.files: dict[str, Any] = {}
        self.start_step = 0

    def sources(self, split: str) -> Sequence[Path]:
        """The files that a split is read from; a module whose ``files`` holds no paths says so itself."""
        found = self.files[split]
        paths = found if isinstance(found, list | tuple) else (found,)
        return [path for path in paths if isinstance(path, Path)]

    def checked(self, split: str) -> Split:
        """The files of a split with the checksums that they have now.

        Raises:
            PhmrunError: (exit 3) One of them is missing or damaged.
        """
        return Split.of(self.sources(split))

    def fingerprints(self) -> dict[str, str]:
        """What the run id must know of the data beyond the config: SHA-256 sums by name."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Reads, checks and encodes the data, or finds that done; afterwards the other methods work."""
        raise NotImplementedError

    @property
    def vocabulary(self) -> Vocabulary:
        """What turns text into numbers."""
        raise NotImplementedError

    def statistics(self) -> dict[str, Any]:
        """Sizes of the prepared data, all of it JSON."""
        raise NotImplementedError

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Optimizer steps of ``world`` processes in so many passes over the training data."""
        raise NotImplementedError

    def inputs(self, split: str) -> Iterator[str]:
        """The items of a split as ``phmrun predict`` takes them: lines, of which an item may have several."""
        raise NotImplementedError

    def train_dataloader(self) -> Iterable[Any]:
        """Training batches without end, from the one after ``start_step`` on; this process's share."""
        raise NotImplementedError

    def validation_batches(self) -> Iterable[Any]:
        """The validation data, each item once; this process's share."""
        raise NotImplementedError


def contents(vocabulary: Vocabulary) -> dict[str, str]:
    """Checksums of the files that a vocabulary is kept in."""
    with TemporaryDirectory() as directory:
        vocabulary.save(Path(directory))
        files = [path for path in Path(directory).rglob("*") if path.is_file()]
        return {str(path.relative_to(directory)): sha256_of(path) for path in files}
