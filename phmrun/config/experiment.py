"""An experiment: the root of every task's configuration, its name, and paths of its data that hold in every folder."""

import glob
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import Field
from pydantic_core import to_jsonable_python

from phmrun.config.schema import Section, Unhashed, former_name, is_hashed
from phmrun.config.sections import (
    LAYER_VERSIONS,
    SHARED_VERSION,
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
from phmrun.files import data_dir


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


def run_id(config: Experiment, *, fingerprints: Mapping[str, str]) -> str:
    """The run id, ``task-data-network-seed-<12 hexadecimal digits>``.

    The network is named by the structures of the parts that are not the default's: ``phm``, ``output-circulant``.

    The digits are the start of a SHA-256 over the schema's version, every semantic value that differs from its
    default, and the fingerprints. A new option with a default therefore leaves the names of old runs alone, and so do
    devices, paths, logging and time limits.

    Args:
        config: A resolved configuration.
        fingerprints: SHA-256 sums of the user's files, of plug-ins and of catalogued data, by name.
    """
    identity: dict[str, Any] = {
        "version": f"{SHARED_VERSION}.{type(config).version}",
        "task": config.task,
        "values": semantic_values(config, former_names=True),
        "fingerprints": dict(fingerprints),
    }
    if layers := layer_versions(config):
        identity["layers"] = layers
    text = json.dumps(identity, sort_keys=True, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()[:12]
    parts = (config.task, config.data.name, _structures(config), str(config.seed), digest)
    return "-".join(re.sub(r"[^A-Za-z0-9._]+", "-", part).strip("-.") or "x" for part in parts)


def layer_versions(section: Section) -> dict[str, int]:
    """The versions of the layers in use that have been changed, :data:`LAYER_VERSIONS`; the others leave no mark."""
    found: dict[str, int] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, LayerConfig) and value.structure in LAYER_VERSIONS:
            found[value.structure] = LAYER_VERSIONS[value.structure]
        if isinstance(value, Section):
            found |= layer_versions(value)
    return found


def _structures(config: Experiment) -> str:
    """The structures of the parts that are not the usual ones; that of the blocks where all are."""
    named = []
    for part in ("layer", "embedding", "output"):
        layer, usual = getattr(config, part), _default(type(config), part)
        if layer.structure != usual.structure:
            named.append(layer.structure if part == "layer" else f"{part} {layer.structure}")
    return " ".join(named) or config.layer.structure


def semantic_values(config: Experiment, *, former_names: bool = False) -> dict[str, Any]:
    """What makes the experiment what it is: dotted key to value, defaults and unhashed keys left out.

    Args:
        config: A resolved configuration.
        former_names: Renamed keys under the names that they had, as run ids need them.
    """
    values: dict[str, Any] = {}
    _collect(config, None, "", values, former_names)
    return values


@cache
def _default(section: type[Section], name: str) -> Any:
    """The default of a key; it is only compared with."""
    return section.model_fields[name].get_default(call_default_factory=True)


def _collect(
    section: Section, default: Section | None, prefix: str, values: dict[str, Any], former_names: bool
) -> None:
    for name in type(section).model_fields:
        if not is_hashed(type(section), name):
            continue
        value = getattr(section, name)
        usual = getattr(default, name) if default else _default(type(section), name)
        if isinstance(value, Section):
            _collect(value, usual if type(usual) is type(value) else None, f"{prefix}{name}.", values, former_names)
        elif value != usual:
            key = former_name(type(section), name) if former_names else name
            values[f"{prefix}{key}"] = to_jsonable_python(value)
    if isinstance(section, LayerConfig):
        defaults = section.option_defaults
        for name, value in section.options.items():
            if name not in defaults or value != defaults[name]:
                values[f"{prefix}{name}"] = to_jsonable_python(value)


Config = TypeVar("Config", bound=Experiment)


def with_absolute_paths(config: Config) -> Config:
    """The configuration with the places of its data made absolute, so that it can be used from another folder.

    A path that leads nowhere from this folder is looked for in the data directory; one that is nowhere stays as it is.
    """
    data = config.data
    own = data.name == "files"
    changes: dict[str, Any] = {}
    for name in type(data).model_fields:
        value = getattr(data, name)
        if is_hashed(type(data), name) or value is None:
            continue
        if isinstance(value, tuple):
            changed: Any = tuple(_absolute(item, own) for item in value)
        else:
            changed = _absolute(value, own)
        if changed != value:
            changes[name] = changed
    return config.model_copy(update={"data": data.model_copy(update=changes)}) if changes else config


def _absolute(value: Any, own: bool) -> Any:
    """A path, or the beginning of one, from the root; anything else as it is.

    Args:
        value: What an unhashed key of the data section holds.
        own: Whether its texts name files of the user's.
    """
    if (not isinstance(value, Path) and not (own and isinstance(value, str))) or Path(value).is_absolute():
        return value
    for folder in (Path.cwd(), data_dir()):
        path = folder / value
        begun = isinstance(value, str) and path.parent.glob(f"{glob.escape(path.name)}*")  # a prefix is part of a name
        if path.exists() or (begun and any(begun)):
            return path if isinstance(value, Path) else f"{folder}/{value}"  # and may end in a slash
    return value
