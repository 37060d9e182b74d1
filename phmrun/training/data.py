"""What every task's data module offers to the rest of the runner."""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl


class DataModule(pl.LightningDataModule):
    """Data of one experiment: where they come from, how they are batched, what is to be known about them.

    Attributes:
        files: What belongs to each split; a split that is there can be scored.
        start_step: Optimizer steps already done; the first training batch is the one after them.
        unit: What losses are averaged over, in the plural: "tokens".
    """

    unit = "items"

    def __init__(self) -> None:
        super().__init__()
        self.files: dict[str, Any] = {}
        self.start_step = 0

    def fingerprints(self) -> dict[str, str]:
        """What the run id must know of the data beyond the config: SHA-256 sums by name."""
        raise NotImplementedError

    def prepare(self) -> None:
        """Reads, checks and encodes the data, or finds that done; afterwards the other methods work."""
        raise NotImplementedError

    @property
    def sizes(self) -> tuple[int, ...]:
        """The vocabulary sizes that the network is built for."""
        raise NotImplementedError

    def statistics(self) -> dict[str, Any]:
        """Sizes of the prepared data, all of it JSON."""
        raise NotImplementedError

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        """Optimizer steps of ``world`` processes in so many passes over the training data."""
        raise NotImplementedError

    def save_vocabulary(self, directory: Path) -> None:
        """Writes whatever turns text into numbers, so that a run can be used without the corpus."""
        raise NotImplementedError
