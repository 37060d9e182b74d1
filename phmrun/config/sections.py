"""Sections of a configuration: base class, and sections that all tasks share."""

import re
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeGuard, Union, get_args, get_origin

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationInfo,
    field_validator,
    model_validator,
)

from phmrun.config.names import Registered
from phmrun.registry import LOSSES, OPTIMIZERS, SCHEDULES

SHARED_VERSION = 1  # part of all run ids; raise it when a default in this file changes
LARGEST_NUMBER = 2**32 - 1  # bound of all integers in a configuration
MOST_LAYERS = 1000  # bound of the layers of a network


@dataclass(frozen=True)
class Unhashed:
    """Annotation of a key or section outside the run id.

    Use it as in ``Annotated[int, Unhashed()]``.
    """


@dataclass(frozen=True)
class Formerly:
    """Annotation of a renamed key.

    The former name is still valid, and is the one in the run id.
    """

    name: str


class Section(BaseModel):
    """Group of keys.

    Give each field a description with its unit, its bounds, and a default.

    A section with a field ``preset`` or ``network`` lists the values that each choice sets in ``presets``, by name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    versions: ClassVar[Mapping[str, int]] = {}
    """Versions of changed mathematics, by ``"key=value"`` or ``"key"``; see :mod:`phmrun.config.identity`."""

    @classmethod
    def all_versions(cls) -> dict[str, int]:
        """Return the versions of changed mathematics, by ``"key=value"`` or ``"key"``.

        Versions of base classes are included; the class's own override them.
        """
        versions: dict[str, int] = {}
        for kind in reversed(cls.__mro__):
            versions |= vars(kind).get("versions", {})
        return versions

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_as_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Reject ``true`` and ``false`` for keys of other types.

        Otherwise return the value. Python reads them as the numbers 1 and 0. Elements of lists are not checked.

        Raises:
            ValueError: The value is boolean, and the key is not.
        """
        if isinstance(value, bool) and info.field_name in cls.model_fields:
            kind = cls.model_fields[info.field_name].annotation
            kinds = get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)
            if not any(option in (bool, Any) or True in get_args(option) for option in kinds):
                raise ValueError(f"must not be {str(value).lower()}")
        return value

    @field_validator("*")
    @classmethod
    def _of_32_bits(cls, value: Any) -> Any:
        """Reject integers above 2³² − 1 in absolute value.

        Otherwise return the value. Elements of lists are not checked.

        Raises:
            ValueError: The integer is too large.
        """
        if type(value) is int and abs(value) > LARGEST_NUMBER:
            raise ValueError(f"must be no larger than {LARGEST_NUMBER:,}")
        return value


def former_name(section: type[Section], name: str) -> str:
    """Return the former name of a renamed key.

    It is ``name`` if the key was never renamed.
    """
    marks = section.model_fields[name].metadata
    return next((mark.name for mark in marks if isinstance(mark, Formerly)), name)


def is_section(annotation: Any) -> TypeGuard[type[Section]]:
    """Return True if a field's annotation is a subclass of :class:`Section`."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def _as_a_clock(value: Any) -> Any:
    """Return a time limit as HH:MM:SS.

    A number is minutes, fractions allowed, rounded to seconds. None and truth values become None.

    Raises:
        ValueError: It is in another form, or 0 seconds.
    """
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
        raise ValueError("must be longer than 0 seconds")
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"


Clock = Annotated[str | None, BeforeValidator(_as_a_clock), Unhashed()]  # a time limit, HH:MM:SS


def seconds_of(clock: str | None) -> int | None:
    """Return the seconds of HH:MM:SS; None stays None."""
    if clock is None:
        return None
    hours, minutes, seconds = (int(part) for part in clock.split(":"))
    return hours * 3600 + minutes * 60 + seconds


FilePath = Annotated[Path | None, Unhashed()]  # a user's file: its contents are part of the run id, its path is not


def is_hashed(section: type[Section], name: str) -> bool:
    """Return True if a key is part of the run id.

    That is so unless it is marked :class:`Unhashed`.
    """
    return not any(isinstance(mark, Unhashed) for mark in section.model_fields[name].metadata)


class OpenSection(Section):
    """Section that takes further keys besides its fields."""

    model_config = ConfigDict(extra="allow")

    @property
    def options(self) -> dict[str, Any]:
        """Further keys and their values, a copy."""
        return dict(self.__pydantic_extra__ or {})

    @property
    def option_defaults(self) -> dict[str, Any]:
        """Defaults of further keys; those without one are always hashed."""
        return {}


class LayerConfig(OpenSection):
    """Weight structure and its options: ``{structure: phm, n: 8}``, or just ``phm``."""

    structure: str = Field(
        "dense",
        description="Name of the weight structure (`phmrun layers list`); all other keys are options of it.",
    )
    _defaults: dict[str, Any] = PrivateAttr(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, value: Any) -> Any:
        """Return ``{"structure": value}`` for a text; anything else unchanged."""
        return {"structure": value} if isinstance(value, str) else value

    @property
    def arguments(self) -> dict[str, Any]:
        """Structure and its options as keyword arguments of a module."""
        return {"structure": self.structure, **self.options}

    @property
    def option_defaults(self) -> dict[str, Any]:
        """Default of each option of the structure; a copy.

        Empty until the configuration is resolved.
        """
        return dict(self._defaults)

    def with_defaults(self, defaults: dict[str, Any]) -> Self:
        """Return a copy in which options that are not set have these defaults.

        ``option_defaults`` of the copy are ``defaults``.
        """
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        copy = type(self)(**fields, **{**defaults, **self.options})
        copy._defaults = dict(defaults)
        return copy


class MapConfig(Section):
    """Structure of a single matrix of the network."""

    name: str = Field(min_length=1, description="Name of the matrix in the network, as `phmrun count-params` lists it.")
    layer: LayerConfig = Field(description="Structure of the matrix, with options.")


class EmbeddingConfig(LayerConfig):
    """Embedding table: a weight structure, or an embedding of several matrices.

    An example is ``{structure: define, depth: 3}``.
    """

    structure: str = Field(
        "dense",
        description="Name of a weight structure or an embedding (`phmrun layers list`); all other keys are options of "
        "it.",
    )
    inside: LayerConfig = Field(
        LayerConfig(),
        description="Structure of the matrices inside an embedding of several matrices; invalid for weight structures.",
    )

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
    hold_out: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Fraction of the training data held out for validation, in place of a validation set; 0: none. The "
        "choice is fixed: items by a checksum of their text, trees at random, running text from its end.",
    )

    @model_validator(mode="before")
    @classmethod
    def _files_imply_their_name(cls, value: Any) -> Any:
        """Add ``name: files`` to a mapping without ``name`` that sets a user's file.

        Anything else is returned unchanged.
        """
        if isinstance(value, dict) and "name" not in value and any(value.get(key) for key in cls.files):
            return {**value, "name": "files"}
        return value

    def testing(self, *paths: Path) -> Self:
        """Return a copy whose only data are a user's test file.

        The splits ``train`` and ``dev`` become None, ``hold_out`` 0. This class uses only the first path. Parallel text
        overrides the method and takes two.
        """
        return self.model_copy(update={"name": "files", "hold_out": 0.0, "train": None, "dev": None, "test": paths[0]})

    def check_validation(self, given: Collection[str], needed: Sequence[str] = ("train", "dev")) -> None:
        """Check that training and validation files are complete.

        Args:
            given: Keys that name a file.
            needed: Keys that must name a file. With ``hold_out``, those that begin with "dev" must not.

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

    train: FilePath = Field(
        None, description="Your training data (`phmrun data formats TASK` prints a sample); UTF-8, plain or .gz."
    )
    dev: FilePath = Field(None, description="Your validation data, in the same format.")
    test: FilePath = Field(None, description="Your test data, in the same format.")

    @model_validator(mode="after")
    def _files_or_a_dataset(self) -> Self:
        """Check that files and ``name`` agree, and that files are complete.

        Raises:
            ValueError: Files are set with another name than "files", or a training or validation file is missing.
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


class BatchConfig(Section):
    """Size of a micro-batch: one forward and backward pass on one device."""

    unit: Literal["tokens", "sentences"] = Field(
        "tokens",
        description="Unit of `size`: target tokens, padding included (longest sentence × sentences), or sentences.",
    )
    size: int = Field(4096, ge=1, description="Target tokens or sentences (see `unit`) per micro-batch and device.")
    order: Literal["bucketed", "file"] = Field(
        "bucketed",
        description="bucketed: sentences of like length together, drawn anew in each epoch; file: as they stand in the "
        "file, in every epoch alike (unit=sentences).",
    )

    @model_validator(mode="after")
    def _order_counts_sentences(self) -> Self:
        """Check that order "file" is used with sentences only.

        Raises:
            ValueError: The order is "file", and the unit is not "sentences".
        """
        if self.order == "file" and self.unit != "sentences":
            raise ValueError("order=file needs unit=sentences")
        return self


class OptimizerConfig(Section):
    """Optimizer and its constants."""

    name: Annotated[str, Registered(OPTIMIZERS)] = Field(
        "adam",
        description="Optimizer. adamw and lamb use decoupled weight decay; lamb needs the extra `optimizers`. "
        "lazy-adam is the Adam of Parser-v2: eps is inside the square root, and table rows without a gradient stay "
        "unchanged.",
    )
    lr: float | None = Field(
        None, gt=0, description="Peak learning rate; null with the schedule noam, required with all others."
    )
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = Field(
        (0.9, 0.98), description="Decay rates β₁, β₂ of the running means of the gradient and of its square."
    )
    eps: float = Field(1e-9, gt=0, description="Constant ε added to the denominator of the update.")
    clip_update: float = Field(
        0.0, ge=0, description="lazy-adam: largest L2 norm of the update over all weights; 0: no limit."
    )
    weight_decay: float = Field(
        0.0, ge=0, description="Weight decay λ: an L2 penalty, or with adamw and lamb decoupled from the gradient."
    )
    rates: Literal["one", "structure", "measured"] = Field(
        "one",
        description="one: the same learning rate for all parameters; structure: a rate for each factor of a weight "
        "matrix by its shape (Qiu et al. 2024); measured: by the movement of the outputs on the first four batches. "
        "Each of N factors then moves them an N-th as far as a dense matrix. --dry-run shows the rates.",
    )
    balance: bool = Field(
        False,
        description="measured: also rescale the factors of each matrix at the start, so that equal steps move its "
        "outputs equally; the matrix itself stays the same.",
    )
    map_rate: float = Field(
        1.0,
        gt=0,
        description="Factor of the learning rate of all weight matrices, dense ones too, except embeddings and output.",
    )

    @model_validator(mode="after")
    def _balance_is_measured(self) -> Self:
        """Check that ``balance`` is used with measured rates only.

        Raises:
            ValueError: It is set with other rates.
        """
        if self.balance and self.rates != "measured":
            raise ValueError("balance needs training.optimizer.rates=measured")
        return self


class ScheduleConfig(Section):
    """Learning-rate schedule over the optimizer steps."""

    name: Annotated[str, Registered(SCHEDULES)] = Field(
        "noam",
        description="Schedule; all begin with a linear warm-up. "
        "`noam`: factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5). `inverse-sqrt`: lr · sqrt(warmup / step). "
        "`constant`: lr. `steps`: lr, multiplied by decay after each milestone. "
        "`exponential`: lr · decay^(step / period). "
        "`cosine`, `linear`: from lr to floor · lr at training.max_steps, along half a cosine or a line.",
    )
    warmup: int = Field(4000, ge=0, description="Length of the linear warm-up, in optimizer steps.")
    factor: float = Field(1.0, gt=0, description="noam: factor of the learning rate; other schedules ignore it.")
    milestones: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (), description="steps: optimizer steps after which the rate is multiplied by decay, in increasing order."
    )
    decay: float = Field(
        0.1, gt=0, le=1, description="steps: factor of the rate at each milestone; exponential: factor per period."
    )
    period: int = Field(5000, ge=1, description="exponential: optimizer steps in which the rate falls by decay.")
    floor: float = Field(0.0, ge=0, le=1, description="cosine, linear: final learning rate as a fraction of lr.")


class TrainingConfig(Section):
    """Length, optimizer, validation and checkpoints of a training run."""

    versions: ClassVar[Mapping[str, int]] = {"precision=bf16-mixed": 2}  # with the fused optimizer

    max_steps: int | None = Field(
        None, ge=0, description="Maximum number of optimizer steps; 0: no training, null: no limit."
    )
    max_epochs: int | None = Field(
        None, ge=1, description="Maximum number of epochs (passes over the training data); null: no limit."
    )
    max_time: Clock = Field(
        None, description="Time limit of this process: HH:MM:SS, or a number of minutes; null: no limit."
    )
    precision: Literal["32", "bf16-mixed", "16-mixed", "64"] = Field(
        "32", description="Floating-point format in bits; the mixed formats keep the weights in 32 bits."
    )
    optimizer: OptimizerConfig = Field(OptimizerConfig(), description="Optimizer and its constants.")
    schedule: ScheduleConfig = Field(ScheduleConfig(), description="Learning-rate schedule.")
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Label smoothing: probability mass spread evenly over all labels."
    )
    clip: float = Field(0.0, ge=0, description="Largest L2 norm of the gradient (clipping); 0: no clipping.")
    accumulate: int = Field(1, ge=1, description="Micro-batches per optimizer step (gradient accumulation).")
    validate_every: int = Field(1000, ge=1, description="Optimizer steps between validations.")
    checkpoint_every: int = Field(1000, ge=1, description="Optimizer steps between checkpoints.")
    checkpoint_minutes: Annotated[float, Unhashed()] = Field(
        10.0, gt=0, description="Maximum time between checkpoints, in minutes, in addition to `checkpoint_every`."
    )
    keep_last: int = Field(
        1, ge=1, description="Number of the latest periodic checkpoints to keep; at least `average`."
    )
    average: int = Field(
        0, ge=0, description="Number of last checkpoints whose mean weights are scored; 0: the best checkpoint."
    )
    average_after: int = Field(
        0,
        ge=0,
        description="Non-monotone interval of NT-ASGD, in validations: averaging of the weights begins when a "
        "validation is worse than the best one before the last `average_after`. Validation and scores then use the "
        "average; 0: never.",
    )
    patience: int = Field(
        0, ge=0, description="Early stopping: validations without a better score before training stops; 0: never."
    )
    monitor: str = Field(
        "loss",
        min_length=1,
        description='Score that selects the best checkpoint: "loss" (lower is better), or a metric such as "bleu", '
        "in the metric's own direction.",
    )

    @field_validator("precision", mode="before")
    @classmethod
    def _bare_number_of_bits(cls, value: Any) -> Any:
        """Return the name of a precision for 32, 64, "bf16", 16 or "16".

        Any other value is returned unchanged.
        """
        if not isinstance(value, int | str):
            return value  # the schema reports it
        return {32: "32", 64: "64", "bf16": "bf16-mixed", "16": "16-mixed", 16: "16-mixed"}.get(value, value)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Check keys that depend on each other.

        Raises:
            ValueError: ``average`` exceeds ``keep_last`` or is set together with ``average_after``; a schedule lacks
                ``max_steps`` or the learning rate, or noam has one; or milestones do not increase.
        """
        if self.average > self.keep_last:
            raise ValueError(f"average is {self.average}, but keep_last keeps only {self.keep_last} checkpoints")
        if self.average and self.average_after:
            raise ValueError("average takes the mean of checkpoints and average_after that of steps: set one of them")
        if self.schedule.name in ("cosine", "linear") and self.max_steps is None:
            raise ValueError(f"the schedule {self.schedule.name!r} ends at training.max_steps, which is not set")
        if list(self.schedule.milestones) != sorted(set(self.schedule.milestones)):
            raise ValueError(f"schedule.milestones must increase, unlike {list(self.schedule.milestones)}")
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
        """Time limit in seconds; None: no limit."""
        return seconds_of(self.max_time)


class ClassTrainingConfig(TrainingConfig):
    """Training of a network that predicts classes, with a selectable loss."""

    loss: Annotated[str, Registered(LOSSES)] = Field(
        "cross-entropy", description="Training loss of a predicted class or token; validation reports cross-entropy."
    )


class DistillationConfig(Section):
    """Knowledge distillation (`phmrun compress --steps N`, `train --teacher RUN`)."""

    weight: float = Field(
        0.5, ge=0, le=1, description="Weight of the distillation loss; the training loss has 1 - weight."
    )
    temperature: float = Field(1.0, gt=0, description="Temperature: divisor of the logits of teacher and student.")


class HardwareConfig(Section):
    """Hardware of the experiment; not part of the run id."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps", "tpu"] = Field(
        "auto", description="Accelerator, by Lightning's name; auto: a GPU if there is one."
    )
    devices: int | str = Field(1, description='Number of devices, a list such as "0,2", or auto (or -1) for all.')
    nodes: int = Field(1, ge=1, le=10_000, description="Number of machines (nodes).")
    strategy: str = Field("auto", description="Parallelization over devices, by Lightning's name: auto, ddp …")
    workers: int = Field(0, ge=0, le=1024, description="Data-loading processes per training process.")
    threads: int = Field(
        0,
        ge=0,
        le=4096,
        description="CPU threads of a process for arithmetic; 0: torch's default, fewer if other processes use cores.",
    )
    kernels: Literal["auto", "torch", "onednn"] = Field(
        "auto",
        description="Library of float32 matrix products on the CPU. auto: oneDNN on AMD processors if a test of the "
        "run's own products shows float32 accuracy, else torch's default (MKL). environment.json records the choice; "
        "a continued run keeps it.",
    )
    tf32: bool = Field(
        False,
        description="Compute float32 products on a GPU in TensorFloat-32: faster on NVIDIA Ampere and later, with 10 "
        "instead of 23 bits of mantissa. environment.json records it.",
    )
    deterministic: bool = Field(False, description="Reject operations whose results vary between calls on a GPU.")
    compile: bool = Field(
        False,
        description="Compile the model with torch.compile before training. Sums are then in another order, so weights "
        "and scores differ slightly from an uncompiled run of the same id. environment.json records it; a run that "
        "continues with another setting warns.",
    )

    @field_validator("devices", mode="before")
    @classmethod
    def _count_as_a_number(cls, value: Any) -> Any:
        """Return a text of digits as an integer.

        Anything else is returned unchanged.
        """
        return int(value) if isinstance(value, str) and value.isdecimal() else value

    @field_validator("devices")
    @classmethod
    def _at_least_one(cls, value: int | str) -> int | str:
        """Check the number of devices, −1, a list, or "auto".

        Return it unchanged.

        Raises:
            ValueError: It is in another form, 0, below −1, or above 1,024.
        """
        if value in (0, "") or (isinstance(value, int) and value < -1):
            raise ValueError("must be a number of devices from 1 on, -1 for all, a list or auto")
        if isinstance(value, int) and value > 1024:  # each has a process
            raise ValueError("must be no more than 1,024")
        if isinstance(value, str) and not re.fullmatch(r"auto|-1|\d+(,\d+)*,?", value.replace(" ", "")):
            raise ValueError(f"must be a number of devices, a list such as 0,2, or auto, not {value!r}")
        return value


class LoggingConfig(Section):
    """Progress lines during training, and mirrors of the run."""

    every: float = Field(5.0, gt=0, description="Seconds between progress lines if the output is not a terminal.")
    wandb: Literal["offline", "online", "disabled"] | None = Field(
        None, description="Mirror of the run in Weights & Biases; null: the value of WANDB_MODE, else offline."
    )
    project: str = Field("phmrun", min_length=1, description="Weights & Biases project.")
    entity: str | None = Field(None, description="Weights & Biases user or team; null: the account's default.")
    mirrors: tuple[Literal["tensorboard", "mlflow", "trackio"], ...] = Field(
        (),
        description="Further mirrors, written into the run directory when training ends; `phmrun sync RUN --to NAME` "
        "writes them at any time.",
    )
