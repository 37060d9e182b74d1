"""A small schema and structures of our own, so that the planner's tests need no torch."""

import hashlib
from typing import Any, Literal

from pydantic import Field

from phmrun.config import DataConfig, Experiment, ModelConfig, Section
from phmrun.errors import ExitCode, PhmrunError, unknown
from phmrun.sweeps.cell import Inspected


class Dense(Section):
    @classmethod
    def defaults(cls) -> dict[str, Any]:
        return {name: field.default for name, field in cls.model_fields.items()}


class Phm(Dense):
    n: int = 4


class Rank(Dense):
    rank: int = 8


STRUCTURES: dict[str, type[Dense]] = {"dense": Dense, "phm": Phm, "rank": Rank}


class ToyModel(ModelConfig):
    width: int = Field(16, ge=1, description="Width.")


class ToyExperiment(Experiment):
    task: Literal["toy"] = Field("toy", description="A toy.")
    data: DataConfig = Field(DataConfig(), description="Data.")
    model: ToyModel = Field(ToyModel(), description="Model.")


class OtherExperiment(ToyExperiment):
    task: Literal["other"] = Field("other", description="Another toy.")  # type: ignore[assignment]


def options_of(name: str, *, table: bool = False) -> type[Dense]:
    if name not in STRUCTURES:
        raise unknown("layer", name, STRUCTURES)
    return STRUCTURES[name]


def inspect(config: Experiment) -> Inspected:
    """Network of width²/n parameters, for n that divides the width; the dataset "lost" is missing."""
    n = config.layer.options.get("n", 1)
    width = config.model.width  # type: ignore[attr-defined]
    if width % n:
        raise PhmrunError(f"n = {n} does not divide {width}")
    if config.data.name == "lost":
        raise PhmrunError("the dataset 'lost' is not on this machine", code=ExitCode.DATA)
    return Inspected(width * width // n, {"data": hashlib.sha256(config.data.name.encode()).hexdigest()})
