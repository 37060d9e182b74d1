"""Listing of the runs of a directory.

Only ``status.json``, ``metrics.json`` and small manifests are read.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import Any

from phmrun.documents import parse_json, parsed
from phmrun.errors import PhmrunError, unknown
from phmrun.files import read_regular
from phmrun.ledger.directory import BENCH, CONFIG, HISTORY, METRICS, STATUS
from phmrun.ledger.history import in_test_units
from phmrun.ledger.manifest import Manifest
from phmrun.ledger.recorded_config import about_config
from phmrun.ledger.status import State, Status, as_found, reason_of

FORMER = "times.json"
"""File with the times of :data:`TIMES` in releases up to 0.1; still read."""
DAMAGED = "damaged"
OTHER_FILE = "file-"
"""Prefix of scores of another file than the run's own test set."""
PREFIX = "time/"
STEP, EPOCH, BATCH, LINE, TEST = (f"{PREFIX}{what}" for what in ("step", "epoch", "batch", "line", "test"))
TIMES = {
    STEP: "seconds per optimizer step",
    EPOCH: "seconds per pass over the training data",
    BATCH: "seconds per batch of the validation data, scored",
    LINE: "seconds per item of the test set, answered as predict does",
    TEST: "seconds for all of them",
}
"""Times in seconds that ``phmrun bench`` measures of a trained model; not part of its scores."""


@dataclass(frozen=True)
class RunSummary:
    """Row of a listing.

    Attributes:
        id: Run id.
        path: Run directory.
        status: Effective status; ``None`` if it is missing or damaged.
        metrics: Scores by name; empty if they are missing or damaged.
        damage: Reason why a file cannot be read; ``None`` if the run is whole.
        broken: Error of a failed checksum.
        checked: True if :meth:`require_unbroken` has passed.
    """

    id: str
    path: Path
    status: Status | None
    metrics: dict[str, Any] = field(default_factory=dict)
    damage: str | None = None
    broken: PhmrunError | None = None
    checked: bool = False

    def require_unbroken(self) -> None:
        """Check the run's identity and the checksums of its files.

        Checkpoints, predictions, vocabulary and history are left out: tables do not read them. A summary that is marked
        as checked passes.

        Raises:
            PhmrunError: (exit 3) A checksum or the identity differs, or a file is missing; names the file.
        """
        if self.broken is not None:
            raise self.broken
        if not self.checked:
            Manifest(self.path).check_all(without=("checkpoints", "predictions", "vocabulary", HISTORY))

    @property
    def state(self) -> str:
        """Name of the state, or ``damaged`` if a file cannot be read."""
        return self.status.state.value if self.status and not self.damage else DAMAGED

    def about(self, key: str) -> Any:
        """Return a fact of the status, such as task, data or seed.

        The result is ``None`` if it is missing.
        """
        return self.status.about.get(key) if self.status else None

    @property
    def network(self) -> str | None:
        """Parts of the network that are not dense: ``phm n=8, output circulant``.

        ``dense`` for a dense network; ``None`` if unknown. It is read from the config if the status, by an earlier
        release, names the layer alone or numbers that a budget chooses, and is that text if the config cannot be read.
        """
        network, layer = self.about("network"), self.about("layer")
        if (network is None and layer is not None) or "=0" in str(network):
            with suppress(OSError, UnicodeDecodeError):
                network = about_config((self.path / CONFIG).read_text(encoding="utf-8")).get("network") or network
        return str(network or layer) if network or layer else None

    def entry(self, name: str) -> Any:
        """Return the stored entry of a score, or of a time ("time/…").

        The result is ``None`` if it is missing.
        """
        return (read_times(self.path) if name.startswith(PREFIX) else self.metrics).get(name)

    def score(self, name: str) -> float | None:
        """Return the value of a score or a time.

        The result is ``None`` if it is missing or not a number.
        """
        return score_value(self.entry(name))

    @property
    def main_score(self) -> str | None:
        """Name of the first score of the test set.

        If there is none, it is that of the first other split. Scores of training, validation and other files do not
        count; ``None`` if there is no score.
        """
        scored = (name for name in self.metrics if self.score(name) is not None)
        names = [name for name in scored if not name.startswith(("train/", "validation/", OTHER_FILE))]
        return next((name for name in names if name.startswith("test/")), names[0] if names else None)

    def to_json(self) -> dict[str, Any]:
        """Return the summary as one flat JSON object.

        It has the status's fields and facts, ``metrics`` and ``damage``.
        """
        status = self.status.to_json() if self.status else {}
        place, content = (
            {"run_id": self.id, "run_dir": str(self.path)},
            {"damage": self.damage, "metrics": self.metrics},
        )
        return {**place, **status.pop("about", {}), **status, "state": self.state, **content}


def score_value(score: Any) -> float | None:
    """Return the number of a score.

    The result is ``None`` if it has none or is too large for a float. A score is a number, or an object with ``value``
    and ``signature``. Booleans are no numbers.
    """
    value = score.get("value") if isinstance(score, dict) else score
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def summarise(path: Path) -> RunSummary | None:
    """Return a directory's summary.

    The result is ``None`` if it has neither a status nor a config. Damage of status or scores, and wrong checksums, are
    recorded in the summary, not raised. Missing scores are no damage.
    """
    manifest = Manifest(path)
    try:
        content = read_regular(path / STATUS)
        record = manifest.read()
        manifest.check(path / STATUS, content, record)
        status = Status.from_json(parse_json(content))
    except PhmrunError as error:
        return RunSummary(path.name, path, None, damage=error.what, broken=error)
    except (FileNotFoundError, NotADirectoryError):
        # Run.create writes the config first, so it was interrupted if there is only a config.
        if not (path / CONFIG).exists():
            return None
        return RunSummary(path.name, path, None, damage=f"{STATUS} is missing")
    except (OSError, ValueError, TypeError) as error:
        why = reason_of(error) if isinstance(error, OSError) else error
        return RunSummary(path.name, path, None, damage=f"{STATUS}: {why}")
    status = as_found(status, path)
    try:
        content = read_regular(path / METRICS)
        manifest.check(path / METRICS, content, record)
        metrics = parsed(content)
    except PhmrunError as error:
        return RunSummary(path.name, path, status, damage=error.what, broken=error)
    except FileNotFoundError:
        return RunSummary(path.name, path, status)
    except (OSError, ValueError) as error:
        return RunSummary(path.name, path, status, damage=f"{METRICS}: {reason_of(error)}")
    if not isinstance(metrics, dict):
        return RunSummary(path.name, path, status, damage=f"{METRICS}: not an object")
    if not _storable(metrics):
        odd = next(name for name, score in metrics.items() if not _storable({name: score}))
        return RunSummary(path.name, path, status, damage=f"{METRICS}: {odd[:80]!a} is not a score")
    return RunSummary(path.name, path, status, in_test_units(metrics, path / CONFIG))


def read_times(directory: Path) -> dict[str, Any]:
    """Return a run's times (:data:`TIMES`) by name.

    An entry has a value in seconds and a signature. Times of ``bench.json`` replace those of :data:`FORMER`. Missing
    and unreadable files are ignored; the result may be empty.
    """
    contents: list[Any] = []
    for name in (FORMER, BENCH):
        try:
            contents.append(parse_json(read_regular(directory / name)))
        except (OSError, ValueError):
            contents.append(None)
    former, now = (content if isinstance(content, dict) else {} for content in contents)
    times = {name: entry for name, entry in now.items() if name.startswith(PREFIX)}
    return {**former["times"], **times} if isinstance(former.get("times"), dict) else times


def _storable(scores: Mapping[str, Any]) -> bool:
    """True if all scores can be stored.

    An integer must fit a float, and texts must be valid Unicode.
    """
    values = (score.get("value") if isinstance(score, dict) else score for score in scores.values())
    try:
        json.dumps(scores, ensure_ascii=False).encode("utf-8")
        return all(math.isfinite(float(value)) for value in values if isinstance(value, int))
    except (OverflowError, UnicodeEncodeError, ValueError):
        return False


def list_runs(runs_dir: Path) -> list[RunSummary]:
    """Return the summaries of a directory's runs, sorted by name.

    Hidden directories and those that are not runs are left out. The list is empty if there is no such directory. Inside
    :func:`unchanged`, a directory is read once.
    """
    listed = _LISTED.get()
    if listed is not None and runs_dir in listed:
        return listed[runs_dir]
    try:
        with os.scandir(runs_dir) as entries:
            paths = [Path(entry.path) for entry in entries if entry.is_dir() and not entry.name.startswith(".")]
    except (FileNotFoundError, NotADirectoryError):
        return []
    summaries = (summarise(path) for path in sorted(paths))
    runs = [summary for summary in summaries if summary is not None]
    if listed is not None:
        listed[runs_dir] = runs
    return runs


_LISTED: ContextVar[dict[Path, list[RunSummary]] | None] = ContextVar("listed", default=None)


@contextmanager
def unchanged() -> Iterator[None]:
    """Context in which no run changes: :func:`list_runs` reads each directory once."""
    token = _LISTED.set({})
    try:
        yield
    finally:
        _LISTED.reset(token)


def select(
    runs: Iterable[RunSummary],
    *,
    task: str | None = None,
    layer: str | None = None,
    data: str | None = None,
    state: str | None = None,
) -> list[RunSummary]:
    """Return the runs that match all filters, in order.

    A filter that is ``None`` matches every run.

    Args:
        runs: Runs to filter.
        task: Name of the task.
        layer: Words of the network's label in any order: ``phm``, ``n=8``, ``phm n=8``.
        data: Name of the data.
        state: A state of :class:`State`, or ``damaged``.

    Raises:
        PhmrunError: (exit 2) There is no such state.
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
    """Return sorted runs.

    The key is one of :data:`COLUMNS` or a score; ties are in order of the id.

    Args:
        runs: Runs to sort.
        key: Name of the column or score; a leading ``-`` reverses the order.

    Returns:
        Sorted runs; those without a value, or with NaN, come last in either order.

    Raises:
        PhmrunError: (exit 2) There is no such column or score.
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
    """Return the names of all numeric scores in order of first appearance."""
    return list(dict.fromkeys(name for run in runs for name in run.metrics if run.score(name) is not None))


def _status_column(key: str) -> Callable[[RunSummary], Any]:
    """Return a function that reads a field of a run's status.

    The result is ``None`` without a status.
    """
    return lambda run: getattr(run.status, key, None)


COLUMNS: dict[str, Callable[[RunSummary], Any]] = {
    "name": attrgetter("id"),
    "state": attrgetter("state"),
    **{key: methodcaller("about", key) for key in ("task", "data", "seed", "parameters")},
    "layer": attrgetter("network"),
    **{key: _status_column(key) for key in ("step", "seconds", "updated", "started", "ended")},
}
"""Columns by which runs can be sorted."""
