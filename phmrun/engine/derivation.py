"""Where a training begins if not at its seed's weights: another run's last checkpoint, weights changed, a teacher."""

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
    """Where the first weights of a run come from, if not from its seed.

    Attributes:
        marks: What of it makes the experiment another one, for the run's name.
        start: Sets the weights of the module; ``None``: they come from the seed.
        teacher: A trained run that the module learns from, its weights loaded.
    """

    marks: Mapping[str, str]
    start: Callable[[TrainingModule], None] | None = None
    teacher: TrainedModel | None = None


def taught_by(run: Run) -> Derivation:
    """A training from the seed's weights, with a trained run as the teacher."""
    trained = open_run(run)
    weights = trained.load()
    return Derivation({"teacher": run.id, "teacher's weights": weights}, teacher=trained)


def check_teacher(trained: TrainedModel, data: DataModule) -> None:
    """Refuses a teacher that has learnt other tokens or labels."""
    if contents(trained.vocabulary) != contents(data.vocabulary):
        raise PhmrunError(
            "the teacher's vocabulary is another one, so that its predictions are of other tokens",
            where=trained.run.id,
            hint="Train both on the same data with the same vocabulary.",
        )


def check_extension(parent: Run, config: Experiment) -> None:
    """Refuses to extend a run to a step that it has passed: nothing would be trained.

    Raises:
        PhmrunError: (exit 2) There are no further steps.
    """
    done, asked = parent.status.step, config.training.max_steps
    if asked is not None and asked <= done:
        raise PhmrunError(
            f"the run {parent.id} has {done:,} optimizer steps already, and --max-steps is {asked:,}",
            where="--extend",
            hint=f"Give --max-steps more than {done:,}.",
        )
