"""What every section of a configuration is: typed, frozen, free of unknown keys; the sections that all tasks share."""

import re
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from phmrun.config.names import Registered
from phmrun.registry import LOSSES, OPTIMIZERS, SCHEDULES

SHARED_VERSION = 1  # part of every run id: raise it when a default in this file changes its value
LARGEST_NUMBER = 2**32 - 1  # of all whole numbers in a configuration
MOST_LAYERS = 1000  # of a network, which are built one by one


@dataclass(frozen=True)
class Unhashed:
    """Marks a key, or a section, that is no part of an experiment's identity: ``Annotated[int, Unhashed()]``."""


@dataclass(frozen=True)
class Formerly:
    """Marks a renamed key with its former name, which run directories hold: it is still read, and hashed."""

    name: str


class Section(BaseModel):
    """A group of keys. Give every field a description with its unit, its bounds, and a default.

    A section with a field ``preset``, or ``network``, lists in ``presets`` what naming one sets, by its name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    versions: ClassVar[Mapping[str, int]] = {}
    """Versions of changed mathematics, by ``"key=value"`` or ``"key"``; see :mod:`phmrun.config.identity`."""

    @classmethod
    def all_versions(cls) -> dict[str, int]:
        """Versions of changed mathematics, with those of the base classes."""
        versions: dict[str, int] = {}
        for kind in reversed(cls.__mro__):
            versions |= vars(kind).get("versions", {})
        return versions

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_as_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuses ``true`` for a number, which Python would silently read as 1."""
        if isinstance(value, bool) and info.field_name in cls.model_fields:
            kind = cls.model_fields[info.field_name].annotation
            kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
            if not any(each in (bool, Any) or True in get_args(each) for each in kinds):
                raise ValueError(f"must not be {str(value).lower()}")
        return value

    @field_validator("*")
    @classmethod
    def _of_32_bits(cls, value: Any) -> Any:
        """Refuses whole numbers that the libraries below could not take."""
        if type(value) is int and abs(value) > LARGEST_NUMBER:
            raise ValueError(f"must be no larger than {LARGEST_NUMBER:,}")
        return value


def former_name(section: type[Section], name: str) -> str:
    """The name that a key had at first; its own where it has never been renamed."""
    marks = section.model_fields[name].metadata
    return next((mark.name for mark in marks if isinstance(mark, Formerly)), name)


def is_section(annotation: Any) -> TypeGuard[type[Section]]:
    """Whether a field's annotation is a nested section."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


FilePath = Annotated[Path | None, Unhashed()]  # of the user's: its contents are part of the run id, its place is not


def is_hashed(section: type[Section], name: str) -> bool:
    """True if a key is part of the identity of an experiment."""
    return not any(isinstance(mark, Unhashed) for mark in section.model_fields[name].metadata)


class LayerConfig(Section):
    """A weight structure and its options: ``{structure: phm, n: 8}``, or just ``phm``."""

    model_config = ConfigDict(extra="allow")

    structure: str = Field(
        "dense",
        description="Name of the weight structure (`phmrun layers list`); every further key is an option of it.",
    )
    _defaults: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        return {"structure": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """The structure's options by name, ready to be passed as keywords."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def arguments(self) -> dict[str, Any]:
        """Structure and options as keyword arguments of a module."""
        return {"structure": self.structure, **self.options}

    @property
    def option_defaults(self) -> dict[str, Any]:
        """The structure's own defaults, known once the configuration has been resolved."""
        return dict(self._defaults)

    def with_defaults(self, defaults: dict[str, Any]) -> Self:
        """A copy in which every option has its value, and which remembers what the structure's defaults are."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        copy = type(self)(**fields, **{**defaults, **self.options})
        copy._defaults = dict(defaults)
        return copy


class MapConfig(Section):
    """The structure of one matrix of the network, which differs from that of its scope."""

    name: str = Field(min_length=1, description="Its place in the network, as `phmrun count-params` names it.")
    layer: LayerConfig = Field(description="Its structure and options.")


class EmbeddingConfig(LayerConfig):
    """A table of word vectors: a structure, or an embedding of several matrices, ``{structure: define, depth: 3}``."""

    structure: str = Field(
        "dense",
        description="Name of a weight structure or of an embedding (`phmrun layers list`); every further key is an "
        "option of it.",
    )
    inside: LayerConfig = Field(
        LayerConfig(), description="Structure of every matrix inside an embedding that has several; no structure's."
    )

    @property
    def arguments(self) -> dict[str, Any]:
        """Structure and options as keyword arguments of what builds it."""
        inside = self.inside.arguments
        return {**super().arguments, **({} if inside == LayerConfig().arguments else {"inside": inside})}


class DataConfig(Section):
    """What every task's data section has; a task adds its own keys."""

    files: ClassVar[tuple[str, ...]] = ()  # keys that name the user's own; where one is given, the data are these files

    name: str = Field(
        "builtin", description='"builtin", a dataset (`phmrun data list`), or "files" for the files named below.'
    )
    hold_out: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of the training data that validation takes in place of the validation set, always the same: "
        "items by a checksum of their text (trees at random), of running text the end.",
    )

    @model_validator(mode="before")
    @classmethod
    def _files_imply_their_name(cls, value: Any) -> Any:
        if isinstance(value, dict) and "name" not in value and any(value.get(key) for key in cls.files):
            return {**value, "name": "files"}
        return value

    def testing(self, *paths: Path) -> Self:
        """The section with the user's own file (of parallel text two) as the test set and nothing to learn from."""
        return self.model_copy(update={"name": "files", "hold_out": 0.0, "train": None, "dev": None, "test": paths[0]})

    def check_validation(self, given: Collection[str], needed: Sequence[str] = ("train", "dev")) -> None:
        """Raises a ``ValueError`` where keys of files, ``needed`` but for what is held out, are missing or too many."""
        dev = [key for key in needed if key.startswith("dev")]
        if self.hold_out and (both := [key for key in dev if key in given]):
            raise ValueError(f"validation takes either {', '.join(both)} or hold_out; give one of them")
        missing = [key for key in needed if key not in given and not (self.hold_out and key in dev)]
        if missing:
            instead = "; --set data.hold_out=0.1 takes a tenth of the training data instead" if missing == dev else ""
            raise ValueError(f"your own files are not complete; missing: {', '.join(missing)}{instead}")


class SplitFilesConfig(DataConfig):
    """Data of which each split of the user's own is one file."""

    files = ("train", "dev", "test")

    train: FilePath = Field(None, description="Training data, one item a line, or text; UTF-8, plain or .gz.")
    dev: FilePath = Field(None, description="Validation data.")
    test: FilePath = Field(None, description="Test data.")

    @model_validator(mode="after")
    def _files_or_a_dataset(self) -> Self:
        given = [key for key in self.files if getattr(self, key) is not None]
        if self.name != "files" and given:
            raise ValueError(f"{', '.join(given)} needs name=files, not name={self.name}")
        if self.name == "files":
            self.check_validation(given)
        return self


class ModelConfig(Section):
    """What every task's model section is; a task adds its own keys."""


class BatchConfig(Section):
    """How many examples go into one micro-batch, that is one forward and backward pass of one device."""

    unit: Literal["tokens", "sentences"] = Field(
        "tokens", description="What `size` counts: target tokens (the longest sentence times the batch) or sentences."
    )
    size: int = Field(4096, ge=1, description="Target tokens or sentences (see `unit`) per micro-batch.")


class OptimizerConfig(Section):
    """The optimizer and its constants."""

    name: Annotated[str, Registered(OPTIMIZERS)] = Field(
        "adam",
        description="adamw and lamb decay the weights apart from the gradient; lamb: extra `optimizers`; lazy-adam: "
        "Parser-v2's Adam, with eps inside the root, which leaves rows of tables without a gradient alone.",
    )
    lr: float | None = Field(
        None, gt=0, description="Peak learning rate; null where the schedule fixes it itself (noam), and only there."
    )
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.98), description="Decay rates of the running means of gradient and squared gradient."
    )
    eps: float = Field(1e-9, gt=0, description="Added to the denominator of the update.")
    clip_update: float = Field(
        0.0, ge=0, description="lazy-adam: greatest norm of the update of all weights together; 0: no limit."
    )
    weight_decay: float = Field(0.0, ge=0, description="Decay of the weights per unit of learning rate.")
    rates: Literal["one", "structure"] = Field(
        "one",
        description="one: all parameters have the same learning rate; structure: each factor of a weight matrix has "
        "that which its shape asks for (Qiu et al. 2024), shown by --dry-run.",
    )


class ScheduleConfig(Section):
    """How the learning rate changes over the optimizer steps."""

    name: Annotated[str, Registered(SCHEDULES)] = Field(
        "noam",
        description="All warm up linearly. noam: factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5); "
        "inverse-sqrt: lr · sqrt(warmup / step); constant: lr; steps: lr, times decay after each milestone; "
        "exponential: lr · decay^(step / period); "
        "cosine, linear: from lr down to floor · lr at training.max_steps, along half a cosine or a line.",
    )
    warmup: int = Field(4000, ge=0, description="Length of the linear warm-up, in optimizer steps.")
    factor: float = Field(1.0, gt=0, description="Multiplies the noam schedule; unused by the others.")
    milestones: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="steps: the optimizer steps after which the rate falls, in rising order."
    )
    decay: float = Field(
        0.1, gt=0, le=1, description="steps: what the rate is multiplied by at a milestone; exponential: in a period."
    )
    period: int = Field(5000, ge=1, description="exponential: optimizer steps in which the rate falls by decay.")
    floor: float = Field(0.0, ge=0, le=1, description="cosine, linear: the last rate in parts of the peak's.")


class TrainingConfig(Section):
    """Length, optimisation, validation and checkpoints of a training run."""

    versions: ClassVar[Mapping[str, int]] = {"precision=bf16-mixed": 2}  # with the fused optimizer

    max_steps: int | None = Field(None, ge=0, description="Stop after so many optimizer steps; 0: train nothing.")
    max_epochs: int | None = Field(None, ge=1, description="Stop after so many passes over the training data.")
    max_time: Annotated[str | None, Unhashed()] = Field(
        None, description="Stop after so long in this process: HH:MM:SS, or a number of minutes."
    )
    precision: Literal["32", "bf16-mixed", "16-mixed", "64"] = Field(
        "32", description="Floating-point format of the arithmetic, in bits; mixed keeps the weights in 32."
    )
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="The optimizer and its constants.")
    schedule: ScheduleConfig = Field(ScheduleConfig(), description="The learning rate over the optimizer steps.")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Probability mass spread over the wrong labels.")
    clip: float = Field(0.0, ge=0, description="Largest norm of the gradient; 0 leaves it as it is.")
    accumulate: int = Field(1, ge=1, description="Micro-batches per optimizer step.")
    validate_every: int = Field(1000, ge=1, description="Optimizer steps between validations.")
    checkpoint_every: int = Field(1000, ge=1, description="Optimizer steps between checkpoints.")
    checkpoint_minutes: Annotated[float, Unhashed()] = Field(
        10.0, gt=0, description="Most minutes between checkpoints, whatever checkpoint_every says."
    )
    keep_last: int = Field(1, ge=1, description="How many of the latest periodic checkpoints are kept for averaging.")
    average: int = Field(
        0, ge=0, description="The final score takes the mean of so many last checkpoints; 0: the best checkpoint."
    )
    average_after: int = Field(
        0,
        ge=0,
        description="Validate, and score, with the mean of the weights over all steps from when a validation was worse "
        "than the best of those before the last so many (NT-ASGD); 0: never.",
    )
    patience: int = Field(0, ge=0, description="Stop after so many validations without a better score; 0 never.")
    monitor: str = Field(
        "loss", min_length=1, description='What is watched at validations: "loss" (lowest is best) or a score such as '
        '"bleu" (highest is best).'
    )  # fmt: skip

    @field_validator("precision", mode="before")
    @classmethod
    def _bare_number_of_bits(cls, value: Any) -> Any:
        if not isinstance(value, int | str):
            return value  # the schema says what is wrong with it
        return {32: "32", 64: "64", "bf16": "bf16-mixed", "16": "16-mixed", 16: "16-mixed"}.get(value, value)

    @field_validator("max_time", mode="before")
    @classmethod
    def _as_a_clock(cls, value: Any) -> Any:
        if value is None or isinstance(value, bool):
            return None
        text = str(value).strip()
        if match := re.fullmatch(r"(\d{1,6}):([0-5]?\d):([0-5]?\d)", text):
            hours, minutes, seconds = (int(part) for part in match.groups())
            total = hours * 3600 + minutes * 60 + seconds
        elif re.fullmatch(r"\d{1,8}(\.\d+)?", text):
            total = round(float(text) * 60)
        else:
            raise ValueError("must be HH:MM:SS or a number of minutes, less than a hundred years")
        if total == 0:
            raise ValueError("must be longer than nothing")
        return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.average > self.keep_last:
            raise ValueError(f"average is {self.average}, but keep_last keeps only {self.keep_last} checkpoints")
        if self.average and self.average_after:
            raise ValueError("average takes the mean of checkpoints and average_after that of steps: set one of them")
        if self.schedule.name in ("cosine", "linear") and self.max_steps is None:
            raise ValueError(f"the schedule {self.schedule.name!r} ends at training.max_steps, which is not set")
        if list(self.schedule.milestones) != sorted(set(self.schedule.milestones)):
            raise ValueError(f"schedule.milestones must rise, unlike {list(self.schedule.milestones)}")
        if self.schedule.name == "noam" and self.optimizer.lr is not None:
            raise ValueError(
                "the noam schedule fixes the learning rate: set schedule.factor and optimizer.lr=null, "
                "or schedule.name=inverse-sqrt"
            )
        if self.schedule.name != "noam" and self.optimizer.lr is None:
            raise ValueError(f"the schedule {self.schedule.name!r} needs a peak learning rate in optimizer.lr")
        return self

    @property
    def max_seconds(self) -> int | None:
        """The time limit in seconds, if there is one."""
        if self.max_time is None:
            return None
        hours, minutes, seconds = (int(part) for part in self.max_time.split(":"))
        return hours * 3600 + minutes * 60 + seconds


class ClassTrainingConfig(TrainingConfig):
    """Training of a network that predicts classes, by a loss of choice."""

    loss: Annotated[str, Registered(LOSSES)] = Field(
        "cross-entropy", description="Loss of a predicted class or token; validations report the cross-entropy."
    )


class DistillationConfig(Section):
    """What a network that has a teacher learns from it (`phmrun compress --steps N`, `train --teacher RUN`)."""

    weight: float = Field(
        0.5, ge=0, le=1, description="Share of the loss that is the distance from the teacher's predictions."
    )
    temperature: float = Field(
        1.0, gt=0, description="What the logits of both are divided by, so that unlikely classes count for more."
    )


class HardwareConfig(Section):
    """The machine that the experiment runs on; no part of what the experiment is."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps", "tpu"] = Field(
        "auto", description="What computes, as Lightning names it."
    )
    devices: int | str = Field(1, description='How many devices, a list such as "0,2", or auto for all.')
    nodes: int = Field(1, ge=1, le=10_000, description="How many machines.")
    strategy: str = Field("auto", description="How devices share the work: auto, ddp … as Lightning names it.")
    workers: int = Field(0, ge=0, le=1024, description="Processes that load data beside each training process.")
    threads: int = Field(
        0, ge=0, le=4096, description="Threads of a process for arithmetic on the CPU; 0: torch's own choice."
    )
    kernels: Literal["auto", "torch", "onednn"] = Field(
        "auto",
        description="Library of float32 matrix products on the CPU. auto: oneDNN on processors by AMD if a probe of "
        "the run's own products shows float32 accuracy, else torch's default (MKL). environment.json records the "
        "choice; a run keeps it.",
    )
    tf32: bool = Field(
        False,
        description="Compute float32 products on a GPU in TensorFloat-32: faster on NVIDIA's Ampere and later, with 10 "
        "bits of mantissa instead of 23. environment.json records it.",
    )
    deterministic: bool = Field(False, description="Refuse operations whose result differs from call to call on a GPU.")
    compile: bool = Field(
        False,
        description="Compile the model with torch.compile before training. It sums in another order, so weights and "
        "scores differ a little from those of an uncompiled run of the same name: environment.json says which it was, "
        "and a run that goes on under another setting warns.",
    )

    @field_validator("devices", mode="before")
    @classmethod
    def _count_as_a_number(cls, value: Any) -> Any:
        return int(value) if isinstance(value, str) and value.isdecimal() else value

    @field_validator("devices")
    @classmethod
    def _at_least_one(cls, value: int | str) -> int | str:
        if value in (0, "") or (isinstance(value, int) and value < -1):
            raise ValueError("must be a number of devices from 1 on, -1 for all, a list or auto")
        if isinstance(value, int) and value > 1024:  # each has a process
            raise ValueError("must be no more than 1,024")
        if isinstance(value, str) and not re.fullmatch(r"auto|-1|\d+(,\d+)*,?", value.replace(" ", "")):
            raise ValueError(f"must be a number of devices, a list such as 0,2, or auto, not {value!r}")
        return value


class LoggingConfig(Section):
    """What is reported while training, and to whom."""

    every: float = Field(5.0, gt=0, description="Seconds between two lines of progress where there is no terminal.")
    wandb: Literal["offline", "online", "disabled"] | None = Field(
        None, description="Mirror of the run in Weights & Biases; null: what WANDB_MODE says, else offline."
    )
    project: str = Field("phmrun", min_length=1, description="Weights & Biases project.")
    entity: str | None = Field(None, description="Weights & Biases user or team; null: the account's own.")
    mirrors: tuple[Literal["tensorboard", "mlflow", "trackio"], ...] = Field(
        (),
        description="Further mirrors, written into the run's folder when training ends; `phmrun sync RUN --to NAME` "
        "writes them at any time.",
    )
