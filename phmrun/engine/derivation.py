"""Runs that training starts or learns from: a teacher, a parent, given weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from phmrun.config import Experiment
from phmrun.engine.data import DataModule, contents
from phmrun.engine.module import TrainingModule
from phmrun.engine.trained_model import TrainedModel, open_run
from phmrun.errors import PhmrunError
from phmrun.ledger import Run


@dataclass(frozen=True)
class Derivation:
    """Another run that training starts or learns from.

    Attributes:
        marks: Facts of that run that the run id depends on.
        start: Sets the initial weights of the module; ``None``: they come from the seed.
        teacher: Trained run for distillation, with its weights loaded.
    """

    marks: Mapping[str, str]
    start: Callable[[TrainingModule], None] | None = None
    teacher: TrainedModel | None = None


def taught_by(run: Run) -> Derivation:
    """Return the derivation of a training with a trained run as teacher.

    Marks are "teacher" (its run id) and "teacher's weights" (their name). The student's weights come from the seed; the
    teacher's are loaded.

    Raises:
        PhmrunError: The run cannot be opened.
    """
    trained = open_run(run)
    weights = trained.load()
    return Derivation({"teacher": run.id, "teacher's weights": weights}, teacher=trained)


def check_teacher(trained: TrainedModel, data: DataModule) -> None:
    """Check that a teacher has the same vocabulary and labels as the data.

    Raises:
        PhmrunError: (exit 2) Its vocabulary is another.
    """
    if contents(trained.vocabulary) != contents(data.vocabulary):
        raise PhmrunError(
            "the teacher's vocabulary is another one, so that its predictions are of other tokens",
            where=trained.run.id,
            hint="Train both on the same data with the same vocabulary.",
        )


def check_extension(parent: Run, config: Experiment) -> None:
    """Check that a run is extended by at least one optimizer step.

    Without ``training.max_steps`` it is.

    Raises:
        PhmrunError: (exit 2) The run has as many steps as ``training.max_steps``, or more.
    """
    done, asked = parent.status.step, config.training.max_steps
    if asked is not None and asked <= done:
        raise PhmrunError(
            f"the run {parent.id} has {done:,} optimizer steps already, and --max-steps is {asked:,}",
            where="--extend",
            hint=f"Give --max-steps more than {done:,}.",
        )
