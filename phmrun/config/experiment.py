"""The root of every task's configuration."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field

from phmrun.config.schema import Section, Unhashed
from phmrun.config.sections import (
    BatchConfig,
    DataConfig,
    DistillationConfig,
    EmbeddingConfig,
    HardwareConfig,
    LayerConfig,
    LoggingConfig,
    MapConfig,
    ModelConfig,
    TrainingConfig,
)


class Experiment(Section):
    """One experiment: which task, on what data, with which layers, trained how.

    A task subclasses it, narrows ``task`` to its own name, and gives ``data`` and ``model`` types of its own.
    """

    version: ClassVar[int] = 1
    """Part of the run id. Raise it when a default of the task's own sections changes its value."""

    task: str = Field(description="Name of the task (`phmrun train --help`).")
    seed: int = Field(1, ge=0, lt=2**32, description="Seeds initialisation, batch order and dropout.")
    data: DataConfig = Field(DataConfig(), description="What is learnt from.")
    layer: LayerConfig = Field(LayerConfig(), description="Structure of the weight matrices inside the blocks.")
    embedding: EmbeddingConfig = Field(EmbeddingConfig(), description="Structure of the embedding tables.")
    output: LayerConfig = Field(LayerConfig(), description="Structure of the output layer.")
    maps: tuple[MapConfig, ...] = Field((), description="Single matrices with another structure than their scope's.")
    model: ModelConfig = Field(ModelConfig(), description="Shape of the network.")
    batch: BatchConfig = Field(BatchConfig(), description="Size of a micro-batch.")
    training: TrainingConfig = Field(TrainingConfig(), description="Length, optimisation, validation, checkpoints.")
    distillation: DistillationConfig = Field(
        DistillationConfig(), description="Learning from a teacher, where there is one."
    )
    hardware: Annotated[HardwareConfig, Unhashed()] = Field(HardwareConfig(), description="The machine to run on.")
    score_on: Annotated[tuple[str, ...], Unhashed()] = Field(
        (), description="Splits that the trained model is scored on beside the test set: dev, or another of the data."
    )
    unsaid: Annotated[dict[str, str], Unhashed()] = Field(
        {},
        description="Keys whose values the paper that this configuration follows does not say, or contradicts, and "
        "where they are from; a later source that sets such a key takes it out.",
    )
    logging: Annotated[LoggingConfig, Unhashed()] = Field(LoggingConfig(), description="Progress and its mirror.")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The vocabulary sizes that the network is built for where no data are at hand, as in ``count-params``."""
        raise NotImplementedError

    @property
    def structures(self) -> dict[str, Any]:
        """The keywords of a network: ``layer``, ``embedding`` and ``output``, each a structure and its options."""
        return {"layer": self.layer.arguments, "embedding": self.embedding.arguments, "output": self.output.arguments}

    def unsaid_values(self) -> dict[str, tuple[Any, str]]:
        """By key or section that a paper does not say: the value here, and where that is from."""
        return unsaid_values(self.model_dump(mode="json"))


def unsaid_values(config: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """As :meth:`Experiment.unsaid_values`, of a configuration as plain nested values."""
    marks = config.get("unsaid")
    return {key: (_at(config, key), str(text)) for key, text in marks.items()} if isinstance(marks, Mapping) else {}


def _at(values: Any, key: str) -> Any:
    """The value at a dotted key; ``None`` where there is none."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values
