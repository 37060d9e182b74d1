"""A finished run trained anew from what its directory says, and both compared bit for bit."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from phmrun.config import Experiment, HardwareConfig, run_id, with_absolute_paths
from phmrun.documents import parsed
from phmrun.engine.agreement import Agreement, agreement
from phmrun.engine.checkpoints import BEST, LAST, load_checkpoint, weights_checksum
from phmrun.engine.code import foreign_marks
from phmrun.engine.experiment import build_data, plugin_marks, train
from phmrun.engine.trained_model import config_of
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular
from phmrun.ledger import Run, State
from phmrun.ledger.environment import differences
from phmrun.ledger.listing import OTHER_FILE, score_value
from phmrun.ledger.record import WEIGHTS

EXTENDS = "extends"


class WeightDifference(NamedTuple):
    """A tensor that is not the same in both runs.

    Attributes:
        checkpoint: The file.
        name: The tensor's name; empty where the file is missing in one run, or only its checksum is on record.
        largest: The largest absolute difference; NaN where shapes or kinds differ.
    """

    checkpoint: str
    name: str
    largest: float


class ScoreDifference(NamedTuple):
    """A score that is not the same in both runs; ``None`` where one run has none."""

    name: str
    before: float | None
    again: float | None


@dataclass(frozen=True)
class Reproduction:
    """A run and the same run trained anew.

    Of so many tensors compared ``weights`` differ, of the scores compared ``scores``; ``parted`` is the first step at
    which the courses of training differ, if any does. What is on record that could explain it stands beside.
    """

    run: Run
    again: Run
    tensors: int
    weights: tuple[WeightDifference, ...]
    compared: tuple[str, ...]
    scores: tuple[ScoreDifference, ...]
    parted: int | None
    explanations: tuple[str, ...]

    @property
    def agreement(self) -> Agreement:
        """Verdict on both runs."""
        return agreement(self.run, self.again, identical=self.identical)

    @property
    def identical(self) -> bool:
        """Whether all weights and all scores are the same, bit for bit."""
        return not self.weights and not self.scores


def reproduce(run: Run, directory: Path, *, plugins: Mapping[Path, str] | None = None) -> Reproduction:
    """Trains a run anew, with its own config, data, threads and hardware settings, and compares.

    Args:
        run: The run; it must be done.
        directory: Where the new run goes, under the same name. One that was interrupted there is continued, one that is
            done there is begun anew.
        plugins: SHA-256 of the user's own layers, by file.

    Raises:
        PhmrunError: The run is not done (exit 2), or its data are not here as they were (exit 3).
    """
    if run.status.state is not State.DONE:
        raise PhmrunError(
            f"the run is {run.status.state}, so there is nothing to reproduce yet",
            where=str(run.path),
            hint="The command that trained it finishes it.",
        )
    if (directory / run.id).resolve() == run.path.resolve():
        raise PhmrunError("the new run would take the place of the old one", where="--in", hint="Name another folder.")
    config = with_absolute_paths(_as_before(config_of(run), run.environment()))
    parent = _require_same(run, config, plugins or {})
    there = Run(directory / run.id)
    # A run that is done there would otherwise be compared as it is, and not be trained.
    anew = there.status_path.is_file() and there.status.state is State.DONE
    result = train(
        config,
        origin={},
        runs_dir=directory,
        plugins=plugins,
        restart=(lambda _: None) if anew else None,
        extend=None if parent is None else str(parent.path),
    )
    return compare(run, Run(result.run_dir))


def compare(run: Run, again: Run) -> Reproduction:
    """Two runs of one experiment, tensor by tensor and score by score."""
    tensors, weights = _compared_weights(run, again)
    one, other = run.metrics(), again.metrics()
    # Left out are scores of the moment, and of files that are none of the run's.
    names = [name for name in dict.fromkeys([*one, *other]) if name in other and not name.startswith(OTHER_FILE)]
    names = [name for name in names if not name.endswith("/sentences_per_second")]
    pairs = [ScoreDifference(name, score_value(one.get(name)), score_value(other.get(name))) for name in names]
    scores = tuple(pair for pair in pairs if not _same(pair.before, pair.again))
    explanations = tuple(_explanations(run, again)) if weights or scores else ()
    return Reproduction(run, again, tensors, weights, tuple(names), scores, _parting(run, again), explanations)


def _as_before(config: Experiment, segments: Sequence[Mapping[str, Any]]) -> Experiment:
    """The config with the hardware settings and threads of the run's first process; nothing is mirrored."""
    hardware = config.hardware
    if segments:
        first = segments[0]
        known = {key: value for key, value in first.get("settings", {}).items() if key in HardwareConfig.model_fields}
        hardware = HardwareConfig(
            **{**known, "threads": first.get("threads", hardware.threads), "kernels": first.get("kernels", "torch")}
        )
    return config.model_copy(
        update={
            "hardware": hardware,
            "logging": config.logging.model_copy(update={"wandb": "disabled"}),
            "training": config.training.model_copy(update={"max_time": None}),
        }
    )


def _require_same(run: Run, config: Experiment, plugins: Mapping[Path, str]) -> Run | None:
    """Refuses data and plug-ins that are not the run's own; returns the run that it extends, if it does.

    Raises:
        PhmrunError: (exit 3) Naming what has changed.
    """
    record = run.data()
    kept = dict(record.fingerprints) if record else {}
    marks = {**build_data(config).fingerprints(), **plugin_marks(plugins), **foreign_marks(config)}
    parent = Run.find(run.path.parent, kept[EXTENDS]) if EXTENDS in kept else None
    if parent is not None:
        marks[EXTENDS] = parent.id
    # The id has all that counts in it; the single checksums only tell what to name in the message.
    if run_id(config, fingerprints=marks) == run.id:
        return parent
    names = dict.fromkeys([*kept, *marks])
    changed = [name for name in names if kept.get(name) != marks.get(name)] if kept else []
    raise PhmrunError(
        "this is no longer the same experiment: "
        + (f"changed are {', '.join(changed)}" if changed else "its name would be another one"),
        where=str(run.path),
        hint="Data and plug-ins (--plugin) must be those that the run was trained with; a version of phmrun with other "
        "defaults gives other names, too.",
        code=ExitCode.DATA,
    )


def _compared_weights(run: Run, again: Run) -> tuple[int, tuple[WeightDifference, ...]]:
    if (run.path / WEIGHTS).is_file():
        return _compared_checksums(run, again)
    count, found = 0, []
    for name in (LAST, BEST):
        paths = [each.checkpoints / name for each in (run, again)]
        if not any(path.is_file() for path in paths):
            continue
        # One of the two has validated, or has lost a file.
        if not all(path.is_file() for path in paths):
            found.append(WeightDifference(name, "", math.nan))
            continue
        one, other = (load_checkpoint(path)["state_dict"] for path in paths)
        for tensor in dict.fromkeys([*one, *other]):
            count += 1
            largest = _largest_difference(one.get(tensor), other.get(tensor))
            if largest is not None:
                found.append(WeightDifference(name, tensor, largest))
    return count, tuple(found)


def _compared_checksums(run: Run, again: Run) -> tuple[int, tuple[WeightDifference, ...]]:
    """Of a run of which only the checksums of its weights are on record."""
    recorded = parsed(read_regular(run.path / WEIGHTS))
    paths = {name: again.checkpoints / name for name in recorded}
    same = {n: path.is_file() and weights_checksum(path) == recorded[n] for n, path in paths.items()}
    count = sum(len(load_checkpoint(path)["state_dict"]) for path in paths.values() if path.is_file())
    return count, tuple(WeightDifference(name, "", math.nan) for name, equal in same.items() if not equal)


def _largest_difference(one: Tensor | None, other: Tensor | None) -> float | None:
    """``None`` where two tensors have the same bits; NaN where they cannot be compared."""
    if one is None or other is None or one.shape != other.shape or one.dtype != other.dtype:
        return math.nan
    bits = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return None if torch.equal(*bits) else float((one.double() - other.double()).abs().max())


def _same(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and math.isnan(one) and math.isnan(other))


def _parting(run: Run, again: Run) -> int | None:
    """The first step at which a figure of both histories differs."""
    others = _by_step(again)
    end: tuple[float, dict[str, Any]] = (math.inf, {})
    other_step, other = next(others, end)
    for step, row in _by_step(run):
        while other_step < step:
            other_step, other = next(others, end)
        if step == other_step and any(key in other and not _same(value, other[key]) for key, value in row.items()):
            return step
    return None


def _by_step(run: Run) -> Iterator[tuple[int, dict[str, Any]]]:
    """Figures of each optimizer step in a run's history, in order."""
    for step, rows in itertools.groupby(run.history.rows(), key=itemgetter("step")):
        yield step, {name: value for row in rows for name, value in row.items() if "/" in name}


def _explanations(run: Run, again: Run) -> Iterator[str]:
    """What is on record that could have made a difference."""
    segments, new = run.environment(), again.environment()
    if not segments:
        yield "the run has no environment.json, so nothing is known of what it was made on"
        return
    seen: dict[str, None] = {}
    for entry in segments:
        seen |= dict.fromkeys(differences(entry, new[-1]))
    # Small results name only the packages that compute.
    yield from (line for line in seen if not (line.startswith("packages.") and ": None, then" in line))
    if not segments[-1].get("cpu") and new[-1].get("cpu"):
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
