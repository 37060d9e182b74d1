"""Sections on training: batches, optimizer, schedule, length, distillation."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from phmrun.config.names import Registered
from phmrun.config.sections import Clock
from phmrun.registry import LOSSES, OPTIMIZERS, SCHEDULES
from phmrun.section import Section, Unhashed


class BatchConfig(Section):
    """Size of a micro-batch: one forward and backward pass on one device."""

    unit: Literal["tokens", "sentences"] = "tokens"
    """Unit of `size`: target tokens, padding included (longest sentence × sentences), or sentences."""
    size: int = Field(4096, ge=1)
    """Target tokens or sentences (see `unit`) per micro-batch and device."""
    buckets: int = Field(0, ge=0)
    """Ranges of length with micro-batches of their own, at least one each; sentences are drawn from the whole range. A
    batch may exceed `size` (unit=tokens). 0: no ranges.
    """
    order: Literal["bucketed", "file"] = "bucketed"
    """bucketed: sentences of like length together, drawn anew in each epoch; file: as they stand in the file, in every
    epoch alike (unit=sentences).
    """

    @model_validator(mode="after")
    def _order_counts_sentences(self) -> Self:
        """Check that order "file" is used with sentences only, and buckets with tokens.

        Raises:
            ValueError: The order is "file", and the unit is not "sentences"; or there are buckets, and it is.
        """
        if self.order == "file" and self.unit != "sentences":
            raise ValueError("order=file needs unit=sentences")
        if self.buckets and self.unit != "tokens":
            raise ValueError("buckets need unit=tokens")
        return self


class OptimizerConfig(Section):
    """Optimizer and its constants."""

    name: Annotated[str, Registered(OPTIMIZERS)] = "adam"
    """Optimizer. Decoupled weight decay: adamw, lamb (extra `optimizers`), muon. Muon (torch 2.9) updates matrices of
    `layer`, and adamw the rest. The Adam of Parser-v2 is lazy-adam: eps is inside the square root, and table rows
    without a gradient stay unchanged.
    """
    lr: float | None = Field(None, gt=0)
    """Peak learning rate; null with the schedule noam, required with all others."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.98)
    """Decay rates β₁, β₂ of the running means of the gradient and of its square."""
    eps: float = Field(1e-9, gt=0)
    """Constant ε added to the denominator of the update."""
    clip_update: float = Field(0.0, ge=0)
    """lazy-adam: largest L2 norm of the update over all weights; 0: no limit."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay λ: an L2 penalty, or with adamw, muon and lamb decoupled from the gradient; lazy-adam has none."""
    rates: Literal["one", "structure"] = "one"
    """one: the same learning rate for all parameters; structure: a rate for each factor of a weight matrix by its shape
    (Qiu et al. 2024), except for muon and lazy-adam. --dry-run shows the rates.
    """
    map_rate: float = Field(1.0, gt=0)
    """Factor of the learning rate of all weight matrices, dense ones too, except embeddings and output."""


class ScheduleConfig(Section):
    """Learning-rate schedule over the optimizer steps."""

    name: Annotated[str, Registered(SCHEDULES)] = "noam"
    """Schedule; all begin with a linear warm-up. `noam`: factor · width^-0.5 · min(step^-0.5, step · warmup^-1.5).
    `inverse-sqrt`: lr · sqrt(warmup / step). `constant`: lr. `steps`: lr, multiplied by decay after each milestone.
    `exponential`: lr · decay^(step / period). `cosine`, `linear`: from lr to floor · lr at training.max_steps, along
    half a cosine or a line.
    """
    warmup: int = Field(4000, ge=0)
    """Length of the linear warm-up, in optimizer steps."""
    factor: float = Field(1.0, gt=0)
    """noam: factor of the learning rate; other schedules ignore it."""
    milestones: tuple[Annotated[int, Field(ge=1)], ...] = ()
    """steps: optimizer steps after which the rate is multiplied by decay, in increasing order."""
    decay: float = Field(0.1, gt=0, le=1)
    """steps: factor of the rate at each milestone; exponential: factor per period."""
    period: int = Field(5000, ge=1)
    """exponential: optimizer steps in which the rate falls by decay."""
    floor: float = Field(0.0, ge=0, le=1)
    """cosine, linear: final learning rate as a fraction of lr."""


class TrainingConfig(Section):
    """Length, optimizer, validation and checkpoints of a training run."""

    versions: ClassVar[Mapping[str, int]] = {"precision=bf16-mixed": 2}  # with the fused optimizer

    max_steps: int | None = Field(None, ge=0)
    """Maximum number of optimizer steps; 0: none, for a folder's weights (model.path); null: no limit."""
    max_epochs: int | None = Field(None, ge=1)
    """Maximum number of epochs (passes over the training data); null: no limit."""
    max_time: Clock = None
    """Time limit of this process: HH:MM:SS; null: no limit."""
    precision: Literal["32", "bf16-mixed", "16-mixed", "64"] = "32"
    """Floating-point format in bits; the mixed formats keep the weights in 32 bits."""
    optimizer: OptimizerConfig = OptimizerConfig()
    """Optimizer and its constants."""
    schedule: ScheduleConfig = ScheduleConfig()
    """Learning-rate schedule."""
    label_smoothing: float = Field(0.1, ge=0, lt=1)
    """Label smoothing: probability mass spread evenly over all labels."""
    clip: float = Field(0.0, ge=0)
    """Largest L2 norm of the gradient (clipping); 0: no clipping."""
    accumulate: int = Field(1, ge=1)
    """Micro-batches per optimizer step (gradient accumulation)."""
    validate_every: int = Field(1000, ge=1)
    """Optimizer steps between validations."""
    checkpoint_every: int = Field(1000, ge=1)
    """Optimizer steps between checkpoints."""
    checkpoint_minutes: Annotated[float, Unhashed()] = Field(10.0, gt=0)
    """Maximum time between checkpoints, in minutes, in addition to `checkpoint_every`."""
    keep_last: int = Field(1, ge=1)
    """Number of the latest periodic checkpoints to keep; at least `average`."""
    average: int = Field(0, ge=0)
    """Number of last checkpoints whose mean weights are scored; 0: the best checkpoint."""
    average_after: int = Field(0, ge=0)
    """Non-monotone interval of NT-ASGD, in validations: averaging of the weights begins when a validation is worse than
    the best one before the last `average_after`. Validation and scores then use the average; 0: never.
    """
    patience: int = Field(0, ge=0)
    """Early stopping: validations without a better score before training stops; 0: never."""
    monitor: str = Field("loss", min_length=1)
    """Score that selects the best checkpoint: "loss" (lower is better), or a metric such as "bleu", in the metric's own
    direction.
    """

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
            ValueError: ``average`` exceeds ``keep_last`` or is set together with ``average_after``; or cosine or linear
                lacks ``max_steps``; noam has a learning rate, or another schedule lacks one; or milestones do not
                increase strictly.
        """
        if self.average > self.keep_last:
            raise ValueError(f"average is {self.average}, but keep_last, of checkpoints, is {self.keep_last}: set both")
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

    def require_monitor(self, task: str, *scores: str) -> None:
        """Check that ``monitor`` is one of a task's validation scores.

        Raises:
            ValueError: It is none.
        """
        if self.monitor in scores:
            return
        raise ValueError(f"training.monitor={self.monitor} is no validation score of {task}: {', '.join(scores)}")


class ClassTrainingConfig(TrainingConfig):
    """Training of a network that predicts classes, with a selectable loss."""

    loss: Annotated[str, Registered(LOSSES)] = "cross-entropy"
    """Training loss of a predicted class or token; validation reports cross-entropy."""


class DistillationConfig(Section):
    """Knowledge distillation (`phmrun compress --steps N`, `train --teacher RUN`)."""

    weight: float = Field(0.5, ge=0, le=1)
    """Weight of the distillation loss; the training loss has 1 - weight."""
    temperature: float = Field(1.0, gt=0)
    """Temperature: divisor of the logits of teacher and student."""
