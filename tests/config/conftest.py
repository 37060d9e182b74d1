"""A small schema and structures of our own, so that these tests need neither torch nor a task."""

from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, create_model

from phmrun.config import DataConfig, EmbeddingConfig, Experiment, ModelConfig, Section, Unhashed
from phmrun.config.layering import OptionsOf
from phmrun.errors import unknown


def options(**fields: Any) -> type[Section]:
    """Options by name: type, default and description."""
    keys: dict[str, Any] = {
        name: (kind, Field(value, description=text)) for name, (kind, value, text) in fields.items()
    }
    return create_model("Options", __base__=Section, **keys)


STRUCTURES = {
    "dense": options(),
    "phm": options(n=(int, 4, "Order."), variant=(Literal["paper", "released"], "paper", "Which formula.")),
    "rank": options(rank=(int, 8, "Rank."), scale=(float | None, None, "Factor.")),
}


EMBEDDINGS = {"deep": options(depth=(int, 3, "Layers."), inside=(dict | None, None, "Structure within."))}


class ToyModel(ModelConfig):
    presets: ClassVar[dict[str, dict[str, Any]]] = {"tiny": {"width": 16, "depth": 1}, "big": {"width": 64, "depth": 4}}
    preset: Annotated[Literal["tiny", "big"], Unhashed()] = Field("tiny", description="Size.")
    width: int = Field(16, ge=1, description="Width.")
    depth: int = Field(1, ge=1, le=9, description="Blocks.")


class ToyExperiment(Experiment):
    task: Literal["toy"] = Field("toy", description="A toy.")
    data: DataConfig = Field(DataConfig(), description="Data.")
    model: ToyModel = Field(ToyModel(), description="Model.")
    embedding: EmbeddingConfig = Field(EmbeddingConfig(structure="rank"), description="Structure of the tables.")


@pytest.fixture(scope="session")
def schema() -> type[ToyExperiment]:
    return ToyExperiment


@pytest.fixture(scope="session")
def options_of() -> OptionsOf:
    def options(name: str, *, table: bool = False) -> type[Section]:
        reference = {**STRUCTURES, **EMBEDDINGS} if table else STRUCTURES
        if name not in reference:
            raise unknown("layer", name, reference)
        return reference[name]

    return options
