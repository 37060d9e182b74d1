"""An experiment: the root of every task's configuration, its name, its YAML, copies with other paths or decoding."""

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from pydantic import Field, ValidationError

from phmrun.config.problems import ConfigError, from_validation, unknown_key
from phmrun.config.sections import (
    BatchConfig,
    DataConfig,
    DistillationConfig,
    EmbeddingConfig,
    Formerly,
    HardwareConfig,
    LayerConfig,
    LoggingConfig,
    MapConfig,
    ModelConfig,
    Section,
    TrainingConfig,
    Unhashed,
    is_hashed,
)
from phmrun.documents import Dumper
from phmrun.errors import PhmrunError
from phmrun.escaping import printable
from phmrun.files import data_dir


class Experiment(Section):
    """One experiment: which task, on what data, with which layers, trained how.

    A task subclasses it, narrows ``task`` to its own name, and gives ``data`` and ``model`` types of its own.
    """

    version: ClassVar[int] = 1
    """Part of the run id. Raise it when a default of the task's own sections changes its value.

    When the mathematics behind a key changes, raise its entry in :attr:`Section.versions` instead.
    """

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
    provenance: Annotated[dict[str, str], Unhashed(), Formerly("unsaid")] = Field(
        {},
        description="By key or the beginning of keys, where a value is from: said in a paper (its section or table), "
        "released as code (repository, file, line), or ours (the reason). A source speaks of the keys that it sets.",
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

    def provenance_values(self) -> dict[str, tuple[Any, str]]:
        """By key or section with a provenance: the value here, and where that is from."""
        return provenance_values(self.model_dump(mode="json"))


def provenance_values(config: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """As :meth:`Experiment.provenance_values`, of a configuration as plain nested values, also of a run before."""
    marks = config.get("provenance", config.get("unsaid"))
    found = {}
    for key, text in marks.items() if isinstance(marks, Mapping) else ():
        value: Any = config
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        found[key] = (value, str(text))
    return found


def leaves(config: Section, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every dotted key of a configuration that holds a value, in the order of the schema."""
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, Section):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
    if isinstance(config, LayerConfig):
        for name, value in config.options.items():
            yield f"{prefix}{name}", value


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
        if value is not None and not is_hashed(type(data), name):
            many = isinstance(value, tuple)
            changed: Any = tuple(_absolute(item, own) for item in value) if many else _absolute(value, own)
            changes |= {name: changed} if changed != value else {}
    return config.model_copy(update={"data": data.model_copy(update=changes)}) if changes else config


def _absolute(value: Any, own: bool) -> Any:
    """A path from the root, or the beginning of one where texts name the user's ``own`` files; all else as it is."""
    if (not isinstance(value, Path) and not (own and isinstance(value, str))) or Path(value).is_absolute():
        return value
    for folder in (Path.cwd(), data_dir()):
        path = folder / value
        begun = isinstance(value, str) and path.parent.glob(f"{glob.escape(path.name)}*")  # a prefix is part of a name
        if path.exists() or (begun and any(begun)):
            return path if isinstance(value, Path) else f"{folder}/{value}"  # and may end in a slash
    return value


def decoding_section(config: Experiment) -> Section:
    """How a trained model of the task is used; an empty section where there is nothing to choose."""
    section = getattr(config, "decoding", None)
    return section if isinstance(section, Section) else Section()


def with_decoding(config: Experiment, overrides: Mapping[str, Any]) -> Experiment:
    """The configuration with some keys of its decoding replaced; all that is wrong with them raises a `PhmrunError`."""
    if not overrides:
        return config
    section = decoding_section(config)
    known = type(section).model_fields
    if "engine" not in known and overrides.keys() & {"engine", "quantization"}:
        what = f"CTranslate2 translates, and {config.task} is no sequence-to-sequence task"
        raise PhmrunError(what, where="--engine")
    if problems := [unknown_key(f"decoding.{key}", known, None) for key in overrides if key not in known]:
        raise ConfigError(problems)
    try:
        changed = type(section).model_validate({**section.model_dump(), **overrides})
    except ValidationError as error:
        raise ConfigError(from_validation(error, type(section), {})) from error
    return config.model_copy(update={"decoding": changed})


def to_yaml(config: Section, comments: Mapping[str, str] | None = None) -> str:
    """The configuration as YAML, every key in the order of the schema; ``comments`` stand behind their dotted keys."""
    lines = list(_yaml_lines(config.model_dump(mode="json"), "", comments or {}))
    width = max((len(line) for line, comment in lines if comment), default=0)
    return "".join(f"{line:<{width}}  # {comment}\n" if comment else f"{line}\n" for line, comment in lines)


def _yaml_lines(values: Mapping[str, Any], prefix: str, comments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    indent = "  " * prefix.count(".")
    for key, value in values.items():
        comment = " ".join(comments.get(f"{prefix}{key}", "").split())
        comment = comment if comment.isprintable() else printable(comment)  # a file's name may hold anything
        if isinstance(value, dict) and value:
            yield f"{indent}{key}:", comment
            yield from _yaml_lines(value, f"{prefix}{key}.", comments)
        else:
            yield f"{indent}{_on_one_line(key)}: {_on_one_line(value)}", comment


def _on_one_line(value: Any) -> str:
    escape = isinstance(value, str) and not value.isprintable()  # line ends and the like
    style = '"' if escape else None
    text: str = yaml.dump(
        value, Dumper=Dumper, allow_unicode=not escape, width=10**6, default_flow_style=True, default_style=style
    )
    return text.removesuffix("...\n").strip()
