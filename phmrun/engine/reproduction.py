"""Reproduction of a finished run: train it again and compare both bit by bit."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from phmrun.config import Experiment, HardwareConfig, with_absolute_paths
from phmrun.documents import parsed
from phmrun.engine.checkpoints import weights_checksums
from phmrun.engine.code import EXTENDS, code_marks
from phmrun.engine.data import build_data
from phmrun.engine.experiment import train
from phmrun.engine.trained_model import config_of, taught_by
from phmrun.errors import PhmrunError, data_error
from phmrun.files import read_regular
from phmrun.ledger import Run, State
from phmrun.ledger.environment import differences
from phmrun.ledger.record import WEIGHTS
from phmrun.ledger.sameness import same_experiment
from phmrun.ledger.scores import OTHER_FILE, score_value
from phmrun.registry import TASKS, plugin_marks
from phmrun.task import Runner, Task

ROUNDING = 1e-3
"""Largest relative difference of two losses or scores that counts as rounding."""
OTHER_NUMBERS = "made with other random numbers: scores agree within seeds' noise only"
"""Verdict on a run whose dropout masks this version draws from other random numbers."""


class ScoreDifference(NamedTuple):
    """Score that differs between two runs.

    ``None`` stands for a missing value.
    """

    name: str
    before: float | None
    again: float | None


@dataclass(frozen=True)
class Reproduction:
    """Comparison of a run with its repetition.

    Attributes:
        run: Original run.
        again: Repeated run.
        checkpoints: Names of compared checkpoint files.
        weights: Names of those whose weights differ, or that only the original run has.
        compared: Names of compared scores.
        scores: Scores that differ.
        until: Last step before the losses differ by more than rounding; ``None`` if no step agrees.
        explanations: Recorded differences that may explain it; empty if weights and scores are equal.
    """

    run: Run
    again: Run
    checkpoints: tuple[str, ...]
    weights: tuple[str, ...]
    compared: tuple[str, ...]
    scores: tuple[ScoreDifference, ...]
    until: int | None
    explanations: tuple[str, ...]

    @property
    def identical(self) -> bool:
        """True if no weights (bit by bit) and no compared scores differ.

        True, too, if there is nothing to compare.
        """
        return not self.weights and not self.scores

    @property
    def verdict(self) -> str:
        """The verdict: "identical", :data:`OTHER_NUMBERS`, "the same up to rounding" or "different".

        Rounding is a relative difference of 10⁻³ in scores and losses of all steps.
        """
        if self.identical:
            return "identical"
        if any(line.startswith("random_numbers:") for line in self.explanations):
            return OTHER_NUMBERS
        pairs = [(score.before, score.again) for score in self.scores]
        close = all(a is not None and b is not None and math.isclose(a, b, rel_tol=ROUNDING) for a, b in pairs)
        return "the same up to rounding" if close and self.until == self.run.status.step else "different"


def reproduce(run: Run, directory: Path, *, plugins: Mapping[Path, str] | None = None) -> Reproduction:
    """Train a run again with its own settings, and return the comparison of both.

    A task with a runner of its own trains by that. Config, data, threads and hardware settings are those of the run.
    Time limits and W&B mirrors of the run are left out. Another run that it extends or learns from must be in the same
    folder.

    Args:
        run: Run in the state ``done``.
        directory: Directory of the repeated run, which has the same id. An interrupted run there is continued, a done
            one is trained from the start.
        plugins: SHA-256 of the user's plug-in files, by file.

    Raises:
        PhmrunError: The run is not done or ``directory`` is its own (exit 2). A file of the run is damaged, or data or
            code have changed (exit 3).
    """
    if run.status.state is not State.DONE:
        what = f"the run is {run.status.state}, so there is nothing to reproduce yet"
        raise PhmrunError(what, where=run.path, hint="The command that trained it finishes it.")
    if (directory / run.id).resolve() == run.path.resolve():
        what = "the new run would take the place of the old one"
        raise PhmrunError(what, where=directory, hint="Name another folder.")
    run.manifest.check_all(without=("checkpoints",))  # before the training, which can take days
    config = with_absolute_paths(_as_before(config_of(run), run.environment()))
    teacher = run.fingerprints().get("teacher")
    derivation = taught_by(Run.find(run.path.parent, teacher)) if teacher else None
    parent = _require_same(run, config, {**plugin_marks(plugins or {}), **(derivation.marks if derivation else {})})
    there = Run(directory / run.id)
    # Without a restart, a run that is done there would not be trained again.
    anew = there.status_path.is_file() and there.status.state is State.DONE
    options: dict[str, Any] = {"origin": {}, "runs_dir": directory, "plugins": plugins or {}}
    options["restart"] = (lambda _: None) if anew else None
    if runner := _runner_of(config):
        return compare(run, Run(runner.run(config, **options)))
    extend = None if parent is None else str(parent.path)
    return compare(run, Run(train(config, **options, extend=extend, derivation=derivation).run_dir))


def compare(run: Run, again: Run) -> Reproduction:
    """Return the comparison of two runs of one experiment.

    Weights are compared by the checksums of both checkpoints, or by those on record if the original run has no other.
    A run that has lost its checkpoints has none to compare. Scores that the repetition lacks, those of other files
    (``file-…``), and speeds are not compared.
    """
    if (run.path / WEIGHTS).is_file():
        recorded = parsed(read_regular(run.path / WEIGHTS))
    else:
        recorded = weights_checksums(run.checkpoints)
    repeated = weights_checksums(again.checkpoints, recorded)
    weights = tuple(name for name, checksum in recorded.items() if repeated.get(name) != checksum)
    before, after = run.metrics(), again.metrics()
    names = [name for name in after if not name.startswith(OTHER_FILE) and not name.endswith("/sentences_per_second")]
    pairs = [ScoreDifference(name, score_value(before.get(name)), score_value(after[name])) for name in names]
    scores = tuple(pair for pair in pairs if str(pair.before) != str(pair.again))
    explanations = tuple(_explanations(run, again)) if weights or scores else ()
    until = _agreeing_until(run, again)
    return Reproduction(run, again, tuple(recorded), weights, tuple(names), scores, until, explanations)


def _agreeing_until(run: Run, again: Run) -> int | None:
    """Return the last step before the first one at which a common loss differs by more than rounding."""
    others = {(row["step"], name): value for row in again.history.rows() for name, value in row.items()}
    until = None
    for row in run.history.rows():
        losses = [name for name in row if name.endswith("loss") and (row["step"], name) in others]
        common = [(row[name], others[row["step"], name]) for name in losses]
        if not all(math.isclose(before, after, rel_tol=ROUNDING, abs_tol=1e-6) for before, after in common):
            return until
        until = row["step"] if common else until
    return until


def _as_before(config: Experiment, segments: Sequence[Mapping[str, Any]]) -> Experiment:
    """Return the config with hardware settings and threads of the run's first process.

    Without a record, the hardware section is unchanged. W&B and the time limit are always switched off.
    """
    hardware = config.hardware
    if segments:
        first = segments[0]
        settings = {k: value for k, value in first.get("settings", {}).items() if k in HardwareConfig.model_fields}
        settings |= {"threads": first.get("threads", hardware.threads), "kernels": first.get("kernels", "torch")}
        hardware = HardwareConfig(**settings)
    logging = config.logging.model_copy(update={"wandb": "disabled"})
    training = config.training.model_copy(update={"max_time": None})
    return config.model_copy(update={"hardware": hardware, "logging": logging, "training": training})


def _runner_of(config: Experiment) -> Runner | None:
    """Return the runner of a config's task; None if phmrun trains its network."""
    task: Task = TASKS.get(config.task)
    runner: Runner | None = task.load("runner") if task.runner else None
    return runner


def _require_same(run: Run, config: Experiment, others: Mapping[str, str]) -> Run | None:
    """Check that data, packages and ``others``, marks of plug-ins and of a teacher, are those of the run.

    The run id that they give must be the run's.

    Returns:
        Run that it extends; None if it extends none.

    Raises:
        PhmrunError: (exit 3) Data are missing, or the run id would be another one; names what has changed, if known.
            (exit 2) The run that it extends is not in the same folder.
    """
    kept, runner = run.fingerprints(), _runner_of(config)
    data = runner.fingerprints(config) if runner else {**build_data(config).fingerprints(), **code_marks(config)}
    marks = {**data, **others}
    extends = EXTENDS in kept and kept[EXTENDS] != (config.adapts and config.adapts.name)
    parent = Run.find(run.path.parent, kept[EXTENDS]) if extends else None
    if parent is not None:
        marks[EXTENDS] = parent.id
    if changed := same_experiment(run, config, marks).names:
        hint = (
            "Data and plug-ins (--plugin FILE) must be those that the run was trained with; other defaults or a "
            "new version of a computation take the release that trained it."
        )
        raise data_error(f"this is no longer the same experiment: changed are {', '.join(changed)}", run.path, hint)
    return parent


def _explanations(run: Run, again: Run) -> Iterator[str]:
    """Yield recorded facts that may explain a difference, at least one.

    They are differences of environments, between the runs and within the first, and use of a GPU. If the environments
    on record are equal, a line says so.
    """
    segments, new = run.environment(), again.environment()
    seen = dict.fromkeys(line for entry in segments for line in differences(entry, new[-1]))
    # Small results name only the packages that compute.
    listed = [line for line in seen if not (line.startswith("packages.") and ": None, then" in line)]
    yield from listed
    for before, after in itertools.pairwise(segments):
        if after.get("first_step") and differences(before, after):
            yield f"it went on in another environment from step {after['first_step']:,}"
    if any(entry.get("accelerators") for entry in (*segments, *new)):
        yield "it was trained on a GPU, some of whose operations sum in no fixed order (hardware.deterministic)"
    if not listed:
        yield "the environments on record are the same, so this is not explained"
