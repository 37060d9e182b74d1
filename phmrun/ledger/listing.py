"""All runs of a directory at a glance: two small files are read per run, and nothing is imported for it."""

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, parsed
from phmrun.errors import PhmrunError, unknown
from phmrun.files import read_regular
from phmrun.ledger.history import in_test_units
from phmrun.ledger.manifest import Manifest
from phmrun.ledger.run import BENCH, CONFIG, HISTORY, METRICS, STATUS, State, Status, about_config, as_found, reason_of

FORMER = "times.json"
"""Where releases up to 0.1 kept the times of :data:`TIMES`; still read."""
DAMAGED = "damaged"
OTHER_FILE = "file-"
"""How the names of scores begin that belong to another file than the run's own test set."""
PREFIX = "time/"
STEP, EPOCH, BATCH, LINE, TEST = (f"{PREFIX}{what}" for what in ("step", "epoch", "batch", "line", "test"))
TIMES = {
    STEP: "seconds per optimizer step",
    EPOCH: "seconds per pass over the training data",
    BATCH: "seconds per batch of the validation data, scored",
    LINE: "seconds per item of the test set, answered as predict does",
    TEST: "seconds for all of them",
}
"""What ``phmrun bench`` measures of a run's model after training, in seconds; no part of its scores."""


@dataclass(frozen=True)
class RunSummary:
    """One line of a listing; ``status`` is ``None`` if it is missing or damaged, ``damage`` if nothing is."""

    id: str
    path: Path
    status: Status | None
    metrics: dict[str, Any] = field(default_factory=dict)
    damage: str | None = None
    broken: PhmrunError | None = None  # the damage, if a file is not as the run has written it

    def require_unbroken(self) -> None:
        """Refuse a run of which a file that tables read is not as the run has written it.

        Raises:
            PhmrunError: (exit 3) Naming the broken link.
        """
        if self.broken is not None:
            raise self.broken
        Manifest(self.path).check_all(without=("checkpoints", "predictions", "vocabulary", HISTORY))

    @property
    def state(self) -> str:
        """The state's name, or ``damaged``."""
        return self.status.state.value if self.status and not self.damage else DAMAGED

    def about(self, key: str) -> Any:
        """What the listing knows of the run: task, data, layer, seed, parameters; ``None`` if it does not."""
        return self.status.about.get(key) if self.status else None

    @property
    def network(self) -> str | None:
        """The parts of its network that are not dense, ``phm n=8, output circulant``; ``None`` if that is not known.

        A run of an earlier release, whose status names the layer alone, is named by its config.
        """
        known, layer = self.about("network"), self.about("layer")
        if known is None and layer is not None:
            with suppress(OSError, UnicodeDecodeError):
                known = about_config((self.path / CONFIG).read_text(encoding="utf-8")).get("network")
        return str(known or layer) if known or layer else None

    def entry(self, name: str) -> Any:
        """One score as it is written, or one of the times that were measured on the run; ``None`` without it."""
        return (read_times(self.path) if name.startswith(PREFIX) else self.metrics).get(name)

    def score(self, name: str) -> float | None:
        """The value of one score, or of one time."""
        return score_value(self.entry(name))

    @property
    def main_score(self) -> str | None:
        """The first score that the run's evaluation wrote, of the test set if there is one; never of another file."""
        scored = (name for name in self.metrics if self.score(name) is not None)
        names = [name for name in scored if not name.startswith(("train/", "validation/", OTHER_FILE))]
        return next((name for name in names if name.startswith("test/")), names[0] if names else None)

    def to_json(self) -> dict[str, Any]:
        """The summary as a JSON object."""
        status = self.status.to_json() if self.status else {}
        place, told = {"run_id": self.id, "run_dir": str(self.path)}, {"damage": self.damage, "metrics": self.metrics}
        return {**place, **status.pop("about", {}), **status, "state": self.state, **told}


def score_value(score: Any) -> float | None:
    """The number in a score, which is written as a number or as an object with ``value`` and ``signature``."""
    value = score.get("value") if isinstance(score, dict) else score
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def summarise(path: Path) -> RunSummary | None:
    """One directory's summary; ``None`` if it is no run."""
    manifest = Manifest(path)
    try:
        content = read_regular(path / STATUS)
        manifest.check(path / STATUS, content)
        status = Status.from_json(parse_json(content))
    except PhmrunError as error:
        return RunSummary(path.name, path, None, damage=error.what, broken=error)
    except (FileNotFoundError, NotADirectoryError):
        # Run.create writes the config first: a directory that has it alone was cut off before it had a status.
        if not (path / CONFIG).exists():
            return None
        return RunSummary(path.name, path, None, damage=f"{STATUS} is missing")
    except (OSError, ValueError, TypeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else error
        return RunSummary(path.name, path, None, damage=f"{STATUS}: {why}")
    status = as_found(status, path)
    try:
        content = read_regular(path / METRICS)
        manifest.check(path / METRICS, content)
        metrics = parsed(content)
    except PhmrunError as error:
        return RunSummary(path.name, path, status, damage=error.what, broken=error)
    except FileNotFoundError:
        return RunSummary(path.name, path, status)
    except (OSError, ValueError) as error:
        return RunSummary(path.name, path, status, damage=f"{METRICS}: {reason_of(error)}")
    if not isinstance(metrics, dict):
        return RunSummary(path.name, path, status, damage=f"{METRICS}: not an object")
    odd = [name for name, score in metrics.items() if _is_odd(score)]
    if odd:
        return RunSummary(path.name, path, status, damage=f"{METRICS}: {odd[0][:80]!a} is no score")
    return RunSummary(path.name, path, status, in_test_units(metrics, path / CONFIG))


def read_times(directory: Path) -> dict[str, Any]:
    """The times of :data:`TIMES` measured on a run, by name, each with value and signature; empty where none is."""
    found: list[Any] = []
    for name in (FORMER, BENCH):
        try:
            found.append(parse_json(read_regular(directory / name)))
        except (OSError, ValueError):
            found.append(None)
    former, now = (each if isinstance(each, dict) else {} for each in found)
    times = {name: each for name, each in now.items() if name.startswith(PREFIX)}
    return {**former["times"], **times} if isinstance(former.get("times"), dict) else times


def _is_odd(score: Any) -> bool:
    """Whether a score holds what no evaluation writes: a number that no float can be, text that is not Unicode."""
    value = score.get("value") if isinstance(score, dict) else score
    try:
        json.dumps(score, ensure_ascii=False).encode("utf-8")
        return isinstance(value, int) and not math.isfinite(float(value))
    except (OverflowError, UnicodeEncodeError, ValueError):
        return True


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """The runs of a directory, by name; other directories and hidden ones are passed over."""
    try:
        with os.scandir(runs_dir) as entries:
            paths = [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = (summarise(path) for path in sorted(paths))
    return [summary for summary in found if summary is not None]


def select(
    runs: Iterable[RunSummary],
    *,
    task: str | None = None,
    layer: str | None = None,
    data: str | None = None,
    state: str | None = None,
) -> list[RunSummary]:
    """The runs that fit every filter that is given.

    ``layer`` is a structure, one of its numbers or both: ``phm``, ``n=8``, ``phm n=8``; ``state`` a state or
    ``damaged``. A `PhmrunError` says that there is no such state.
    """
    states = [*State, DAMAGED]
    if state is not None and state not in states:
        raise unknown("state", state, states, where="--state")
    words = set(layer.split()) if layer else set()
    return [
        run
        for run in runs
        if (state is None or run.state == state)
        and (task is None or run.about("task") == task)
        and (data is None or run.about("data") == data)
        and words <= set(str(run.network).replace(",", " ").split())
    ]


def sort(runs: Iterable[RunSummary], key: str) -> list[RunSummary]:
    """The runs in order of one of :data:`COLUMNS` or of a score; runs that have nothing in it come last.

    A leading ``-`` turns the order round. A `PhmrunError` says that there is no such column.
    """
    runs = list(runs)
    name = key.removeprefix("-")
    scores = {score for run in runs for score in run.metrics}
    if runs and name not in (*COLUMNS, *scores):
        raise unknown("column", name, [*COLUMNS, *scores], where="--sort")
    column = COLUMNS.get(name, lambda run: run.score(name))
    valued = [(column(run), run.id, run) for run in runs]
    missing = [item for item in valued if item[0] is None or item[0] != item[0]]  # no value, or NaN: never best
    present = sorted((item for item in valued if item not in missing), key=lambda item: item[:2])
    if key.startswith("-"):
        present.reverse()
    return [item[2] for item in [*present, *missing]]


def score_names(runs: Sequence[RunSummary]) -> list[str]:
    """The names of all scores that are numbers, in the order of their first appearance."""
    return list(dict.fromkeys(name for run in runs for name in run.metrics if run.score(name) is not None))


def _status_column(key: str) -> Callable[[RunSummary], Any]:
    return lambda run: getattr(run.status, key, None)


COLUMNS: dict[str, Callable[[RunSummary], Any]] = {
    "name": attrgetter("id"),
    "state": attrgetter("state"),
    **{key: methodcaller("about", key) for key in ("task", "data", "seed", "parameters")},
    "layer": attrgetter("network"),
    **{key: _status_column(key) for key in ("step", "seconds", "updated", "started", "ended")},
}
"""What runs are sorted by."""
