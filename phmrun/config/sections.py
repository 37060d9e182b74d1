"""Sections that all tasks share: data, structures, network, hardware, logging."""

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, field_validator, model_validator

from phmrun.documents import parse_yaml
from phmrun.section import OpenSection, Section, Unhashed


def _checked_clock(value: str | None) -> str | None:
    """Return a time limit.

    Raises:
        ValueError: It is not HH:MM:SS.
    """
    if value is not None and not re.fullmatch(r"\d{1,6}:[0-5]?\d:[0-5]?\d", value):
        raise ValueError("must be HH:MM:SS, such as 01:30:00")
    return value


Clock = Annotated[str | None, AfterValidator(_checked_clock), Unhashed()]  # a time limit, HH:MM:SS


def seconds_of(clock: str | None) -> int | None:
    """Return the seconds of a text HH:MM:SS; None stays None."""
    if clock is None:
        return None
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


FilePath = Annotated[Path | None, Unhashed()]  # a user's file: its contents are part of the run id, its path is not


SHARED_VERSION = 1  # part of all run ids; raise it when a default of a shared section changes
MOST_LAYERS = 1000  # bound of the layers of a network


def spelled(label: str) -> dict[str, Any]:
    """Return the section that a label of tables stands for: ``phm n=8`` is ``{structure: phm, n: 8}``."""
    name, *options = label.split() or [label]
    pairs = (option.partition("=") for option in options)
    return {"structure": name, **{key: value and parse_yaml(value, label) for key, _, value in pairs}}


class LayerConfig(OpenSection):
    """Weight structure and its options: ``{structure: phm, n: 8}``, or its label, ``phm n=8``."""

    structure: str = "dense"
    """Name of the weight structure (`phmrun layers`); all other keys are options of it."""
    _defaults: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        """Return the section that a text stands for; anything else unchanged."""
        return spelled(value) if isinstance(value, str) else value

    @property
    def arguments(self) -> dict[str, Any]:
        """Structure and its options as keyword arguments of a module.

        In a resolved configuration, options at their defaults are among them.
        """
        return {"structure": self.structure, **self.options}

    @property
    def option_defaults(self) -> dict[str, Any]:
        """Default of each option of the structure; a copy.

        Empty until the configuration is resolved.
        """
        return dict(self._defaults)

    def with_defaults(self, defaults: dict[str, Any]) -> Self:
        """Return a copy in which options that are not set have these defaults.

        Its fields stay; its ``option_defaults`` are ``defaults``.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        copy = type(self)(**fields, **{**defaults, **self.options})
        copy._defaults = dict(defaults)
        return copy


class MapConfig(Section):
    """Structure of single matrices of the network."""

    name: str = Field(min_length=1)
    """Name of the matrix in the network, as `phmrun count-params` lists it, or a pattern such as `encoder.*.expand`."""
    layer: LayerConfig
    """Structure of the matrix, with options."""


class EmbeddingConfig(LayerConfig):
    """Embedding table: a weight structure, or an embedding of several matrices.

    An example is ``{structure: define, depth: 3}``.
    """

    structure: str = "dense"
    """Name of a weight structure or an embedding (`phmrun layers`); all other keys are options of it."""
    inside: LayerConfig = LayerConfig()
    """Structure of the matrices inside an embedding of several matrices; invalid for weight structures."""

    @property
    def arguments(self) -> dict[str, Any]:
        """Structure and options as keyword arguments of a module.

        ``inside`` is among them only if it is not the default.
        """
        inside = self.inside.arguments
        return {**super().arguments, **({} if inside == LayerConfig().arguments else {"inside": inside})}


NO_DATA = "none"
"""Name of the data of an imported checkpoint that no data were given for."""


class DataConfig(Section):
    """Data section of all tasks.

    A task adds its own keys.
    """

    files: ClassVar[tuple[str, ...]] = ()  # keys that name the user's files; any of them implies name=files

    name: str = Field(
        "builtin",
        description='"builtin" (the built-in corpus), a dataset (`phmrun data list`), "files" (your own files), or '
        '"none" (a checkpoint imported without data).',
    )
    hold_out: float = Field(0.0, ge=0, lt=1)
    """Fraction of the training data held out for validation, in place of a validation set; 0: none. The choice is
    fixed: items by a checksum of their text, trees at random, running text from its end.
    """

    @classmethod
    def names_files(cls, values: Mapping[str, Any]) -> bool:
        """Return True if the values of the section name a file of the user's."""
        return any(values.get(key) for key in cls.files)

    @model_validator(mode="before")
    @classmethod
    def _files_imply_their_name(cls, value: Any) -> Any:
        """Add ``name: files`` to a mapping without ``name`` that sets a user's file.

        Anything else is returned unchanged.
        """
        if isinstance(value, dict) and "name" not in value and cls.names_files(value):
            return {**value, "name": "files"}
        return value

    def testing(self, *paths: Path) -> Self:
        """Return a copy whose only data are a user's test file.

        The splits ``train`` and ``dev`` become None, ``hold_out`` 0. This class uses the first path and ignores others.
        Parallel text overrides the method and takes two. The copy is not validated.
        """
        return self.model_copy(update={"name": "files", "hold_out": 0.0, "train": None, "dev": None, "test": paths[0]})

    def check_validation(self, given: Collection[str], needed: Sequence[str] = ("train", "dev")) -> None:
        """Check that training and validation files are complete.

        Args:
            given: Keys that name a file.
            needed: Keys that must name a file. With ``hold_out``, those that begin with "dev" must not name one.

        Raises:
            ValueError: A key is missing, or validation has both files and ``hold_out``.
        """
        dev = [key for key in needed if key.startswith("dev")]
        if self.hold_out and (both := [key for key in dev if key in given]):
            raise ValueError(f"validation takes either {', '.join(both)} or hold_out; give one of them")
        missing = [key for key in needed if key not in given and not (self.hold_out and key in dev)]
        if missing:
            instead = "; --set data.hold_out=0.1 takes a tenth of the training data instead" if missing == dev else ""
            raise ValueError(f"your own files are not complete; missing: {', '.join(missing)}{instead}")


class SplitFilesConfig(DataConfig):
    """Data section of a task whose splits are one file each."""

    files = ("train", "dev", "test")

    train: FilePath = None
    """Your training data (`phmrun schema TASK --files` prints a sample); UTF-8, plain or .gz."""
    dev: FilePath = None
    """Your validation data, in the same format."""
    test: FilePath = None
    """Your test data, in the same format."""

    @model_validator(mode="after")
    def _files_or_a_dataset(self) -> Self:
        """Check that files and ``name`` agree, and that files are complete.

        Raises:
            ValueError: Files are set with another name than "files", or a training or validation file is missing. Or a
                validation file is set beside ``hold_out``, which takes its place.
        """
        present = [key for key in self.files if getattr(self, key) is not None]
        if self.name != "files" and present:
            raise ValueError(f"{', '.join(present)} needs name=files, not name={self.name}")
        if self.name == "files":
            self.check_validation(present)
        return self


class ModelConfig(Section):
    """Model section of all tasks.

    A task adds its own keys.
    """


class HardwareConfig(Section):
    """Hardware of the experiment; not part of the run id."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps", "tpu"] = "auto"
    """Accelerator, by Lightning's name; auto: a GPU if there is one."""
    devices: int | str = 1
    """Number of devices, a list such as "0,2", or auto (or -1) for all."""
    nodes: int = Field(1, ge=1, le=10_000)
    """Number of machines (nodes)."""
    strategy: str = "auto"
    """Parallelization over devices, by Lightning's name: auto, ddp …"""
    workers: int = Field(0, ge=0, le=1024)
    """Data-loading processes per training process."""
    threads: int = Field(0, ge=0, le=4096)
    """CPU threads of a process for arithmetic; 0: torch's default, fewer if other processes use cores."""
    kernels: Literal["auto", "torch", "onednn"] = "auto"
    """Library of float32 matrix products on the CPU. auto: oneDNN on AMD processors from Zen 5 on, if a test of the
    run's products shows float32 accuracy; else torch's default (MKL). environment.json records the choice; a continued
    run keeps it.
    """
    tf32: bool = False
    """Compute float32 products on a GPU in TensorFloat-32: faster on NVIDIA Ampere and later, with 10 instead of 23
    bits of mantissa. environment.json records it.
    """
    deterministic: bool = False
    """Reject operations whose results vary between calls on a GPU."""
    compile: bool = False
    """Compile the model with torch.compile before training. Sums are then in another order, so weights and scores
    differ slightly from an uncompiled run of the same id. environment.json records it; a run that continues with
    another setting warns.
    """

    @field_validator("devices")
    @classmethod
    def _at_least_one(cls, value: int | str) -> int | str:
        """Return the devices if they are a number, −1, a list, or "auto"; a text of digits as a number.

        Numbers are 1 to 1,024, −1 stands for all. They are not compared with the machine.

        Raises:
            ValueError: They are in another form, 0, below −1, or above 1,024.
        """
        value = int(value) if isinstance(value, str) and value.isdecimal() else value
        if value in (0, "") or (isinstance(value, int) and value < -1):
            raise ValueError("must be a number of devices from 1 on, -1 for all, a list or auto")
        if isinstance(value, int) and value > 1024:  # each has a process
            raise ValueError("must be no more than 1,024")
        if isinstance(value, str) and not re.fullmatch(r"auto|-1|\d+(,\d+)*,?", value.replace(" ", "")):
            raise ValueError(f"must be a number of devices, a list such as 0,2, or auto, not {value!r}")
        return value


class LoggingConfig(Section):
    """Progress lines during training, and the mirror of the run in Weights & Biases."""

    every: float = Field(5.0, gt=0)
    """Seconds between progress lines if the output is not a terminal."""
    wandb: Literal["offline", "online", "disabled"] | None = None
    """Mirror of the run in Weights & Biases; null: the value of WANDB_MODE, else offline."""
    project: str = Field("phmrun", min_length=1)
    """Weights & Biases project."""
    entity: str | None = None
    """Weights & Biases user or team; null: the account's default."""
