"""Reproduction of a finished run: train it again and compare both bit by bit."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phmrun.config import Experiment, HardwareConfig, with_absolute_paths
from phmrun.documents import parsed
from phmrun.engine.agreement import Agreement, Course, agreement, course_of, same
from phmrun.engine.checkpoints import BEST, LAST, load_checkpoint, weights_checksum
from phmrun.engine.code import EXTENDS, code_marks
from phmrun.engine.data import build_data
from phmrun.engine.experiment import train
from phmrun.engine.trained_model import config_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular
from phmrun.ledger import Run, State
from phmrun.ledger.environment import differences
from phmrun.ledger.record import WEIGHTS
from phmrun.ledger.sameness import same_experiment
from phmrun.ledger.scores import OTHER_FILE, score_value
from phmrun.registry import TASKS, plugin_marks
from phmrun.section import is_hashed
from phmrun.task import Runner, Task


class WeightDifference(NamedTuple):
    """Tensor that differs between two runs.

    Attributes:
        checkpoint: Name of the checkpoint file.
        name: Name of the tensor; empty if one run lacks the file, or only its checksum is on record.
        largest: Largest absolute difference; NaN if shapes or types differ, or the tensor cannot be compared.
    """

    checkpoint: str
    name: str
    largest: float


class ScoreDifference(NamedTuple):
    """Score that differs between two runs.

    ``None`` stands for a missing value; NaN is a value.
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
        tensors: Number of compared tensors.
        weights: Tensors that differ.
        compared: Names of compared scores.
        scores: Scores that differ.
        course: Comparison of their histories.
        explanations: Recorded differences that may explain it; empty if weights and scores are equal.
    """

    run: Run
    again: Run
    tensors: int
    weights: tuple[WeightDifference, ...]
    compared: tuple[str, ...]
    scores: tuple[ScoreDifference, ...]
    course: Course
    explanations: tuple[str, ...]

    @property
    def agreement(self) -> Agreement:
        """Verdict on the agreement of both runs."""
        return agreement(self.run, self.again, self.course, identical=self.identical)

    @property
    def identical(self) -> bool:
        """True if no weights (bit by bit) and no compared scores differ.

        True, too, if there is nothing to compare.
        """
        return not self.weights and not self.scores


def reproduce(
    run: Run, directory: Path, *, plugins: Mapping[Path, str] | None = None, data_dirs: Sequence[Path] = ()
) -> Reproduction:
    """Train a run again with its own settings, and return the comparison of both.

    A task with a runner of its own trains by that. Config, data, threads and hardware settings are those of the run.
    Time limits and W&B mirrors of the run are left out. A run that extends another begins with that run's last
    checkpoint, which must be in the same folder.

    Args:
        run: Run in the state ``done``.
        directory: Directory of the repeated run, which has the same id. An interrupted run there is continued, a done
            one is trained from the start.
        plugins: SHA-256 of the user's plug-in files, by file.
        data_dirs: Folders with the run's own data files under their names. Default: the paths in its config.

    Raises:
        PhmrunError: The run is not done or ``directory`` is its own (exit 2). A file of the run is damaged, or data or
            code have changed (exit 3).
    """
    if run.status.state is not State.DONE:
        raise PhmrunError(
            f"the run is {run.status.state}, so there is nothing to reproduce yet",
            where=str(run.path),
            hint="The command that trained it finishes it.",
        )
    if (directory / run.id).resolve() == run.path.resolve():
        what = "the new run would take the place of the old one"
        raise PhmrunError(what, where=str(directory), hint="Name another folder.")
    run.manifest.check_all(without=("checkpoints",))  # before the training, which can take days
    config = _as_before(config_of(run), run.environment())
    config = with_absolute_paths(_with_files_in(config, data_dirs))
    parent = _require_same(run, config, plugins or {})
    there = Run(directory / run.id)
    # Without a restart, a run that is done there would not be trained again.
    anew = there.status_path.is_file() and there.status.state is State.DONE
    restart = (lambda _: None) if anew else None
    if runner := _runner_of(config):
        path = runner.run(config, origin={}, runs_dir=directory, plugins=plugins or {}, restart=restart)
        return compare(run, Run(path))
    result = train(
        config,
        origin={},
        runs_dir=directory,
        plugins=plugins,
        restart=restart,
        extend=None if parent is None else str(parent.path),
    )
    return compare(run, Run(result.run_dir))


def compare(run: Run, again: Run) -> Reproduction:
    """Return the comparison of two runs of one experiment, tensor by tensor.

    Scores are compared, too, except those that the repetition lacks, those of other files (``file-…``), and
    ``…/sentences_per_second``. A score that only the repetition has differs. Explanations are collected only if
    something differs.
    """
    tensors, weights = _compared_weights(run, again)
    before, after = run.metrics(), again.metrics()
    names = [name for name in dict.fromkeys([*before, *after]) if name in after and not name.startswith(OTHER_FILE)]
    names = [name for name in names if not name.endswith("/sentences_per_second")]
    pairs = [ScoreDifference(name, score_value(before.get(name)), score_value(after.get(name))) for name in names]
    scores = tuple(pair for pair in pairs if not same(pair.before, pair.again))
    explanations = tuple(_explanations(run, again)) if weights or scores else ()
    return Reproduction(run, again, tensors, weights, tuple(names), scores, course_of(run, again), explanations)


def _as_before(config: Experiment, segments: Sequence[Mapping[str, Any]]) -> Experiment:
    """Return the config with hardware settings and threads of the run's first process.

    Without a record, the hardware section is unchanged. W&B and the time limit are always switched off.
    """
    hardware = config.hardware
    if segments:
        first = segments[0]
        settings = {k: value for k, value in first.get("settings", {}).items() if k in HardwareConfig.model_fields}
        hardware = HardwareConfig(
            **{**settings, "threads": first.get("threads", hardware.threads), "kernels": first.get("kernels", "torch")}
        )
    return config.model_copy(
        update={
            "hardware": hardware,
            "logging": config.logging.model_copy(update={"wandb": "disabled"}),
            "training": config.training.model_copy(update={"max_time": None}),
        }
    )


def _with_files_in(config: Experiment, folders: Sequence[Path]) -> Experiment:
    """Return a copy of a config whose own data files are in the first of the folders that has files of their names.

    A config of a catalogued dataset, or without folders, is returned unchanged. Checksums are not compared.
    """

    def place(name: str) -> Path:
        """Return the folder with files whose names begin so, else the first one."""
        return next((folder for folder in folders if any(folder.glob(f"{name}*"))), folders[0])

    data = config.data
    changes: dict[str, Any] = {}
    for name in type(data).model_fields if data.name == "files" and folders else ():
        value = getattr(data, name)
        if is_hashed(type(data), name):
            continue
        if isinstance(value, str) and name == "prefix":
            last = "" if value.endswith("/") else Path(value).name
            changes[name] = f"{place(last)}/{last}"
        elif isinstance(value, Path):
            changes[name] = place(value.name) / value.name
        elif isinstance(value, tuple) and all(isinstance(item, Path) for item in value):
            changes[name] = tuple(place(item.name) / item.name for item in value)
    return config.model_copy(update={"data": data.model_copy(update=changes)}) if changes else config


def _runner_of(config: Experiment) -> Runner | None:
    """Return the runner of a config's task; None if phmrun trains its network."""
    task: Task = TASKS.get(config.task)
    runner: Runner | None = task.load("runner") if task.runner else None
    return runner


def _require_same(run: Run, config: Experiment, plugins: Mapping[Path, str]) -> Run | None:
    """Check that data, plug-ins and packages are those of the run.

    The run id that they give must be the run's.

    Returns:
        Run that it extends; None if it extends none.

    Raises:
        PhmrunError: (exit 3) Data are missing, or the run id would be another one; names what has changed, if known.
            (exit 2) The run that it extends is not in the same folder.
    """
    kept, runner = run.fingerprints(), _runner_of(config)
    try:
        data = runner.fingerprints(config) if runner else {**build_data(config).fingerprints(), **code_marks(config)}
    except PhmrunError as error:
        if error.code is ExitCode.DATA and config.data.name == "files":
            error.hint = "--data-dir DIR finds the run's files in a folder, by their names."
        raise
    marks = {**data, **plugin_marks(plugins)}
    extends = EXTENDS in kept and kept[EXTENDS] != (config.adapts and config.adapts.name)
    parent = Run.find(run.path.parent, kept[EXTENDS]) if extends else None
    if parent is not None:
        marks[EXTENDS] = parent.id
    changed = same_experiment(run, config, marks).names
    if not changed:
        return parent
    raise PhmrunError(
        f"this is no longer the same experiment: changed are {', '.join(changed)}",
        where=str(run.path),
        hint="Data (of the same names in --data-dir DIR) and plug-ins (--plugin FILE) must be those that the run "
        "was trained with; other defaults or a new version of a computation take the release that trained it.",
        code=ExitCode.DATA,
    )


def _compared_weights(run: Run, again: Run) -> tuple[int, tuple[WeightDifference, ...]]:
    """Return the number of compared tensors, and those that differ.

    Checkpoints are ``last.ckpt`` and ``best.ckpt``. One that only one run has counts as one difference. If the first
    run has only checksums of its weights, these are compared. If the first run has lost all its checkpoints, nothing is
    compared; if the repetition has, each of the first's counts as a difference.

    Raises:
        PhmrunError: (exit 3) A checkpoint is damaged.
    """
    if (run.path / WEIGHTS).is_file():
        return _compared_checksums(run, again)
    if not any((run.checkpoints / name).is_file() for name in (LAST, BEST)):
        return 0, ()
    count, differing = 0, []
    for name in (LAST, BEST):
        paths = [side.checkpoints / name for side in (run, again)]
        if not any(path.is_file() for path in paths):
            continue
        # Only one run has validated, or the other has lost the file.
        if not all(path.is_file() for path in paths):
            differing.append(WeightDifference(name, "", math.nan))
            continue
        before, after = (load_checkpoint(path)["state_dict"] for path in paths)
        for tensor in dict.fromkeys([*before, *after]):
            count += 1
            largest = _largest_difference(before.get(tensor), after.get(tensor))
            if largest is not None:
                differing.append(WeightDifference(name, tensor, largest))
    return count, tuple(differing)


def _compared_checksums(run: Run, again: Run) -> tuple[int, tuple[WeightDifference, ...]]:
    """Return the number of the repetition's tensors, and the checkpoints that differ.

    For a run that has only the checksums of its weights on record: its checkpoints are compared, and a file that the
    repetition lacks differs. Further checkpoints of the repetition do not count.
    """
    recorded = parsed(read_regular(run.path / WEIGHTS))
    paths = {name: again.checkpoints / name for name in recorded}
    same = {n: path.is_file() and weights_checksum(path) == recorded[n] for n, path in paths.items()}
    count = sum(len(load_checkpoint(path)["state_dict"]) for path in paths.values() if path.is_file())
    return count, tuple(WeightDifference(name, "", math.nan) for name, equal in same.items() if not equal)


def _largest_difference(one: Tensor | None, other: Tensor | None) -> float | None:
    """Return the largest absolute difference of two tensors.

    None if their bits are equal; NaN if one is missing, if shapes or types differ, or if a difference is NaN.
    """
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return math.nan
    bits = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return None if torch.equal(*bits) else float((one.double() - other.double()).abs().max())


def _explanations(run: Run, again: Run) -> Iterator[str]:
    """Yield recorded facts that may explain a difference, at least one.

    They are differences of environments, between the runs and within the first, missing records, and use of a GPU. If
    the environments on record are equal, a line says so.
    """
    segments, new = run.environment(), again.environment()
    seen: dict[str, None] = {}
    for entry in segments:
        seen |= dict.fromkeys(differences(entry, new[-1]))
    # Small results name only the packages that compute.
    yield from (line for line in seen if not (line.startswith("packages.") and ": None, then" in line))
    if segments and not segments[-1].get("cpu") and new[-1].get("cpu"):
        here = ", ".join(f"{name} {value}" for name, value in new[-1]["cpu"].items())
        used = new[-1].get("arithmetic", {}).get("instruction_set")
        yield f"the record names no CPU family, model or instruction set; here: {here}, {used}"
    for before, after in itertools.pairwise(segments):
        if after.get("first_step") and differences(before, after):
            yield f"it went on in another environment from step {after['first_step']:,}"
    if any(entry.get("accelerators") for entry in (*segments, *new)):
        yield "it was trained on a GPU, some of whose operations sum in no fixed order (hardware.deterministic)"
    if not seen:
        yield "the environments on record are the same, so this is not explained"
