"""The smallest thing that trains: one weight, scripted losses, a batch every microsecond."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import SGD

from phmrun.config import HardwareConfig, TrainingConfig
from phmrun.engine.data import DataModule
from phmrun.engine.fit import Fitted, fit
from phmrun.engine.module import Loss, TrainingModule, seed_everything


class ToyBatch(NamedTuple):
    """A batch that knows its number; its units are its number plus one."""

    number: Tensor
    units: int
    window_units: int


class Stream:
    """Batches without end, from one on."""

    def __init__(self, start: int, accumulate: int) -> None:
        self.start, self.accumulate = start, accumulate

    def __iter__(self) -> Iterator[ToyBatch]:
        number = self.start
        while True:
            first = number - number % self.accumulate
            window = sum(range(first + 1, first + self.accumulate + 1))
            yield ToyBatch(torch.tensor(float(number)), number + 1, window)
            number += 1


class ToyData(DataModule):
    """Ten batches make an epoch."""

    def __init__(self, accumulate: int = 1) -> None:
        super().__init__()
        self.accumulate = accumulate

    def train_dataloader(self) -> Stream:
        return Stream(self.start_step * self.accumulate, self.accumulate)

    def validation_batches(self) -> list[ToyBatch]:
        return [ToyBatch(torch.tensor(1.0), 1, 1)]

    def steps_in_epochs(self, epochs: int, world: int) -> int:
        return -(-epochs * 10 // (self.accumulate * world))


class ToyModule(TrainingModule):
    """Module whose loss of batch b is (b + 1)·weight, unless the script overrides it; it reports b.

    Args:
        script: What happens at a micro-batch, by its number: a loss to report, or an exception to raise.
        validations: The validation losses in their order; the last one stays.
        scores: The other scores of a validation, likewise.
    """

    def __init__(
        self,
        script: dict[int, float | BaseException] | None = None,
        validations: Iterable[float] = (1.0,),
        scores: Iterable[dict[str, float]] = (),
    ) -> None:
        super().__init__(nn.Linear(1, 1, bias=False), _sgd, lambda step: 1.0 / step)
        nn.init.zeros_(self.network.weight)
        self.script = script or {}
        self.validations = list(validations)
        self.scores = list(scores)
        self.seen: list[int] = []

    def loss(self, batch: ToyBatch) -> Loss:
        number = int(batch.number)
        self.seen.append(number)
        output = self.script.get(number, float(number))
        if isinstance(output, BaseException):
            raise output
        total = self.network.weight.sum() * batch.units
        return Loss(total, torch.tensor(output), batch.units)

    def validate(self, batches: Any) -> dict[str, float]:
        return {"loss": self.validations.pop(0) if len(self.validations) > 1 else self.validations[0]}

    def validation_scores(self, data: Any) -> dict[str, float]:
        return self.scores.pop(0)


def _sgd(network: nn.Module, *, fused: bool = True) -> SGD:
    return SGD(network.parameters(), lr=1.0)


class Toy(NamedTuple):
    """Result of a toy's training."""

    fitted: Fitted
    rows: list[dict[str, Any]]
    module: ToyModule
    resumed: list[int]


def train_toy(
    directory: Path,
    module: ToyModule | None = None,
    *,
    start: Path | None = None,
    on_row: Callable[[dict[str, Any]], None] | None = None,
    **training: Any,
) -> Toy:
    """Trains a toy in ``directory``; the keywords are keys of the training section."""
    seed_everything(0)
    module = module or ToyModule()
    settings = {
        "max_steps": 6,
        "optimizer": {"lr": 1.0},
        "schedule": {"name": "constant"},
        "validate_every": 100,
        "checkpoint_every": 2,
        **training,
    }
    config = TrainingConfig.model_validate(settings)
    rows: list[dict[str, Any]] = []
    resumed: list[int] = []

    def record(row: dict[str, Any]) -> None:
        rows.append(row)
        if on_row:
            on_row(row)

    fitted = fit(
        module,
        ToyData(config.accumulate),
        config,
        HardwareConfig(accelerator="cpu"),
        directory=directory,
        start=start,
        record=record,
        lines_every=1000.0,
        resumed=resumed.append,
    )
    return Toy(fitted, rows, module, resumed)
