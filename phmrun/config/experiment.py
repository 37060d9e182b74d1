"""Configuration of an experiment: base class, YAML, copies with other paths or decoding."""

import glob
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

import yaml
from pydantic import Field, ValidationError

from phmrun.config.problems import ConfigError, from_validation, unknown_key
from phmrun.config.sections import (
    DataConfig,
    EmbeddingConfig,
    HardwareConfig,
    LayerConfig,
    LoggingConfig,
    MapConfig,
    ModelConfig,
)
from phmrun.config.training import BatchConfig, DistillationConfig, TrainingConfig
from phmrun.documents import Dumper, value_at
from phmrun.errors import PhmrunError
from phmrun.escaping import printable
from phmrun.files import data_dir
from phmrun.section import Formerly, OpenSection, Section, Unhashed, is_hashed


class Experiment(Section):
    """Configuration of one experiment: task, data, layers, network, training.

    A task subclasses it, restricts ``task`` to its name, and declares its own types of ``data`` and ``model``.
    """

    checks_layers: ClassVar[bool] = True
    """False if structures and their options are not phmrun's and are taken as they are."""
    version: ClassVar[int] = 1
    """Version of the task's schema, part of the run id. Raise it when a default of the task's own sections changes.

    When the mathematics behind a key changes, raise its entry in :attr:`Section.versions` instead.
    """

    task: str
    """Name of the task: nmt, style, sva, nli, parse, lm, or a plug-in's."""
    seed: int = Field(1, ge=0, lt=2**32)
    """Random seed (initialization, data order, dropout)."""
    data: DataConfig = DataConfig()
    """Training, validation and test data."""
    layer: LayerConfig = LayerConfig()
    """Structure of the weight matrices inside the blocks."""
    embedding: EmbeddingConfig = EmbeddingConfig()
    """Structure of the embedding tables."""
    output: LayerConfig = LayerConfig()
    """Structure of the output layer."""
    maps: tuple[MapConfig, ...] = ()
    """Single matrices whose structure differs from `layer`, `embedding` or `output`."""
    model: ModelConfig = ModelConfig()
    """Architecture and sizes of the network."""
    batch: BatchConfig = BatchConfig()
    """Size of a micro-batch."""
    training: TrainingConfig = TrainingConfig()
    """Length, optimizer, validation, checkpoints."""
    adapts: Annotated[Path | None, Unhashed()] = None
    """Folder of the trained run whose weights are frozen and updated by layers of structure added; --extend sets it."""
    distillation: DistillationConfig = DistillationConfig()
    """Knowledge distillation; used only if the run has a teacher."""
    hardware: Annotated[HardwareConfig, Unhashed()] = HardwareConfig()
    """Devices, threads and kernels; not part of the run id."""
    score_on: Annotated[tuple[str, ...], Unhashed()] = ()
    """Further splits that the trained model is scored on, besides the test set: dev, or another."""
    provenance: Annotated[dict[str, str], Unhashed(), Formerly("unsaid")] = Field({})
    """Origin of values by key, or by the beginning of keys: stated in a paper (section or table), released as code
    (repository, file, line), or ours (reason). A later source replaces the entries of its keys.
    """
    logging: Annotated[LoggingConfig, Unhashed()] = LoggingConfig()
    """Progress lines and the mirror in Weights & Biases."""

    @classmethod
    def placed(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a source's nested values with keys moved to their sections.

        Here they are returned unchanged; tasks whose schema moves keys override it.
        """
        return values

    @property
    def sizes(self) -> tuple[int, ...]:
        """Vocabulary sizes of the network if the data are missing.

        ``phmrun count-params`` uses them. Tasks override this property.

        Raises:
            NotImplementedError: In this class.
        """
        raise NotImplementedError

    @property
    def structures(self) -> dict[str, Any]:
        """Structures of a network as keyword arguments, without ``maps``.

        Keys: layer, embedding, output. Each value holds ``structure`` and its options.
        """
        return {"layer": self.layer.arguments, "embedding": self.embedding.arguments, "output": self.output.arguments}

    def provenance_values(self) -> dict[str, tuple[Any, str]]:
        """Return (value, provenance) by dotted key, for each entry of ``provenance``.

        The value of a section is a mapping; that of a key that does not exist is None.
        """
        return provenance_values(self.model_dump(mode="json"))


def provenance_values(config: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    """Return (value, provenance) by dotted key, for each entry of ``provenance``.

    For configurations as nested mappings; a key without a value gives None. Old runs name the entry ``unsaid``. Without
    it, the result is empty.
    """
    marks = config.get("provenance", config.get("unsaid"))
    entries = marks.items() if isinstance(marks, Mapping) else ()
    return {key: (value_at(config, key), str(text)) for key, text in entries}


def leaves(config: Section, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each dotted key and its value, in schema order.

    Options of a layer follow its fields. Fields that are left out of YAML are left out here, too. A list is one value.
    """
    for name, field in type(config).model_fields.items():
        if field.exclude:
            continue
        value = getattr(config, name)
        if isinstance(value, Section):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
    if isinstance(config, OpenSection):
        for name, value in config.options.items():
            yield f"{prefix}{name}", value


Config = TypeVar("Config", bound=Experiment)


def with_absolute_paths(config: Config) -> Config:
    """Return a copy whose paths of data and base run are absolute.

    A relative path of data is looked up in the working directory, then in the data directory. For the user's own files,
    a text counts as the beginning of paths, too. A path that neither has stays unchanged. The path of the base run is
    resolved in the working directory.
    """
    data = config.data
    names = [name for name in type(data).model_fields if not is_hashed(type(data), name)]
    changes = {name: _absolute(getattr(data, name), data.name == "files") for name in names}
    update: dict[str, Any] = {"data": data.model_copy(update=changes)}
    if config.adapts and not config.adapts.is_absolute():
        update["adapts"] = config.adapts.resolve()
    return config.model_copy(update=update)


def _absolute(value: Any, prefixes: bool) -> Any:
    """Return a relative path as an existing absolute one.

    It is looked up below the current folder, then below the data directory. With ``prefixes``, a text counts as the
    beginning of paths, too. Anything else is returned unchanged, also a relative path that neither folder has.
    """
    if isinstance(value, tuple):
        return tuple(_absolute(item, prefixes) for item in value)
    if (not isinstance(value, Path) and not (prefixes and isinstance(value, str))) or Path(value).is_absolute():
        return value
    for folder in (Path.cwd(), data_dir()):
        path = folder / value
        begun = isinstance(value, str) and path.parent.glob(f"{glob.escape(path.name)}*")  # a prefix is part of a name
        if path.exists() or (begun and any(begun)):
            return path if isinstance(value, Path) else f"{folder}/{value}"  # and may end in a slash
    return value


def decoding_section(config: Experiment) -> Section:
    """Return the decoding section of a task.

    It is an empty section if the task has none.
    """
    section = getattr(config, "decoding", None)
    return section if isinstance(section, Section) else Section()


def with_decoding(config: Experiment, overrides: Mapping[str, Any]) -> Experiment:
    """Return a copy with some keys of the decoding section replaced.

    The section is validated again. Without overrides, the result is ``config`` itself.

    Raises:
        PhmrunError: (exit 2) The task has no such key, or a value is invalid.
    """
    if not overrides:
        return config
    section = decoding_section(config)
    fields = type(section).model_fields
    if not fields:
        raise PhmrunError(f"{config.task} has no settings of decoding: leave out {', '.join(overrides)}")
    if problems := [unknown_key(f"decoding.{key}", fields, None) for key in overrides if key not in fields]:
        raise ConfigError(problems)
    try:
        changed = type(section).model_validate({**section.model_dump(), **overrides})
    except ValidationError as error:
        raise ConfigError(from_validation(error, type(section), {}, "decoding.")) from error
    return config.model_copy(update={"decoding": changed})


def to_yaml(config: Section, origin: Mapping[str, str] | None = None) -> str:
    """Return the configuration as YAML, all keys in schema order.

    Args:
        config: The configuration, or a section of one.
        origin: Source of values by dotted key, written as comments at the ends of the keys' lines, in one column;
            without "default".
    """
    comments = {key: label for key, label in (origin or {}).items() if label != "default"}
    lines = list(_yaml_lines(config.model_dump(mode="json"), "", comments))
    width = max((len(line) for line, comment in lines if comment), default=0)
    return "".join(f"{line:<{width}}  # {comment}\n" if comment else f"{line}\n" for line, comment in lines)


def _yaml_lines(values: Mapping[str, Any], prefix: str, comments: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each line of YAML without its comment, and the comment or "".

    ``prefix`` is the dotted key of the values with a final dot; its dots set the indentation. A comment is reduced to
    one line: white space becomes single spaces, and control characters are escaped.
    """
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
    """Return a value as YAML on one line.

    A text with control characters is in double quotes, with escapes.
    """
    escape = isinstance(value, str) and not value.isprintable()  # line ends and the like
    style = '"' if escape else None
    text: str = yaml.dump(
        value, Dumper=Dumper, allow_unicode=not escape, width=10**6, default_flow_style=True, default_style=style
    )
    return text.removesuffix("...\n").strip()
