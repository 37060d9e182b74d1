"""Lazy, read-only view of a run: listings, tables, ``runs show`` and the run's page."""

import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from phmrun.documents import flat
from phmrun.errors import ExitCode, PhmrunError
from phmrun.files import read_regular
from phmrun.ledger.directory import HISTORY
from phmrun.ledger.lock import LOCK, Holder, living_holder
from phmrun.ledger.manifest import BrokenChain
from phmrun.ledger.recorded_config import config_values
from phmrun.ledger.run import Run
from phmrun.ledger.status import Status

DAMAGED = "damaged"
OTHER_FILE = "file-"
"""Prefix of scores of another file than the run's own test set."""
PREFIX = "time/"
FIRST = "-first-500"
STEP, EPOCH, BATCH, LINE, TEST = (f"{PREFIX}{what}" for what in ("step", "epoch", "batch", "line", "test"))
TIMES = {
    STEP: "seconds per optimizer step",
    EPOCH: "seconds per pass over the training data",
    BATCH: "seconds per batch of the validation data, scored",
    LINE: "seconds per item of the test set, answered as predict does",
    TEST: "seconds for all of them",
}
"""Times in seconds that ``phmrun bench`` measures of a trained model; not part of its scores."""
ROWS_OF_HISTORY = 5
_CONTENTS = {
    "README.md": "description of the run",
    "config.yaml": "resolved config",
    "status.json": "state of the run",
    "metrics.json": "scores with their signatures",
    "parameters.json": "parameter counts",
    "data.json": "files and checksums of the data",
    "environment.json": "environment of each process",
    "bench.json": "speeds measured by `phmrun bench run` and `phmrun export --compare`",
    "history.jsonl": "training history",
    "train.log": "log of training",
    "script.log": "output of the script",
    "script": "files of the script",
    "items.json": "counts of each test item",
    "vocabulary": "vocabulary",
    "checkpoints": "weights and training states",
    "predictions": "outputs of the model",
    "wandb": "W&B mirror",
    LOCK: "process that holds the run",
}


@dataclass(frozen=True)
class RunFile:
    """Entry of a run directory.

    Attributes:
        name: File name; a directory's name ends with a slash.
        size: Bytes; those of all files for a directory, without symbolic links.
        meaning: Purpose of the file; empty if phmrun does not know it.
    """

    name: str
    size: int
    meaning: str


class RecordedRun:
    """Run as it is recorded; each file is read once, when needed.

    The value of a damaged file is ``None``, empty or 0. Its error is kept, not raised.

    Attributes:
        run: Run that is read; nothing is written.
        id: Name of its directory.
        path: Run directory.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.path = run.path
        self.id = run.id if run.path.name in ("", "..") else run.path.name
        self._errors: dict[str, Exception] = {}

    def _readable(self, name: str, read: Callable[[], Any], otherwise: Any) -> Any:
        """Return the result of ``read``, or ``otherwise`` after a reading error.

        The error is kept under ``name``; it is a `PhmrunError`, or one of the system or of decoding.
        """
        try:
            return read()
        except (PhmrunError, OSError, UnicodeDecodeError) as error:
            self._errors[name] = error
            return otherwise

    @cached_property
    def status(self) -> Status | None:
        """Effective status; ``None`` if it is missing or damaged."""
        return self._readable("status", lambda: self.run.status, None)

    @cached_property
    def metrics(self) -> dict[str, Any]:
        """Scores by name; empty if there are none, or one of them is damaged."""
        return self._readable("metrics", lambda: _storable(self.run), {})

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Parameter counts; empty if they are missing or damaged."""
        return self._readable("parameters", self.run.parameters, {})

    @cached_property
    def bench(self) -> dict[str, Any]:
        """Measurements of ``phmrun bench`` by name; empty if they are missing or damaged."""
        return self._readable("bench", self.run.bench, {})

    @cached_property
    def times(self) -> dict[str, Any]:
        """Measured times by name ("time/…"); empty if missing or damaged.

        Each entry is an object with seconds and a signature.
        """
        return {name: entry for name, entry in self.bench.items() if name.startswith(PREFIX)}

    @cached_property
    def config(self) -> str:
        """Text of the config; empty if it cannot be read."""
        return self._readable("config", lambda: read_regular(self.run.config_path).decode("utf-8"), "")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Values of the config by dotted key; empty if it cannot be read."""
        with suppress(PhmrunError, OSError):
            return flat(config_values(self.run.config_path))
        return {}

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """Last five rows of the history; empty if it is missing or damaged."""
        return self._readable("history", lambda: self.run.history.tail(ROWS_OF_HISTORY), [])

    @cached_property
    def history_rows(self) -> int:
        """Number of rows of the history; 0 if it is missing or damaged."""
        return self._readable("number of rows", self.run.history.count, 0)

    @cached_property
    def environment(self) -> list[dict[str, Any]]:
        """Entries of ``environment.json``; empty if they are missing or damaged."""
        return self._readable("environment", self.run.environment, [])

    @cached_property
    def samples(self) -> dict[str, Any]:
        """Columns and rows of the sample outputs; empty if they are not a table."""
        match self._readable("samples", self.run.samples, {}):
            case {"columns": [*columns], "rows": [*rows]} if all(isinstance(row, list) for row in rows):
                return {"columns": columns, "rows": rows}
        return {}

    @property
    def holder(self) -> Holder | None:
        """Living process that holds the run, or ``None``."""
        return living_holder(self.path / LOCK)

    @cached_property
    def entries(self) -> list[RunFile]:
        """Entries of the directory: known files first, then others by name.

        Known files are in a fixed order, ``README.md`` first. Hidden entries are left out. A file that vanishes during
        the reading counts 0 bytes.
        """
        return list(_entries(self.path))

    @property
    def damage(self) -> str | None:
        """Reason why status or scores cannot be read; ``None`` if both can.

        It begins with the file's name, except for a failed checksum or an error of the system.
        """
        error = self._error
        if not isinstance(error, PhmrunError):
            return str(error) if error else None
        name = Path(error.where or "").name
        return error.what if isinstance(error, BrokenChain) or "." not in name else f"{name}: {error.what}"

    @property
    def broken(self) -> BrokenChain | None:
        """Error of a failed checksum of status or scores, or ``None``."""
        return error if isinstance(error := self._error, BrokenChain) else None

    @property
    def _error(self) -> Exception | None:
        """Error of the status, else of the scores."""
        _ = self.status, self.metrics
        return self._errors.get("status") or self._errors.get("metrics")

    @property
    def faults(self) -> list[str]:
        """Errors of all damaged files, one line each.

        All files that have a property here are read; checkpoints, predictions and log are not.
        """
        for name, member in vars(RecordedRun).items():
            if isinstance(member, cached_property):
                getattr(self, name)
        return [" ".join(str(error).split()) for error in self._errors.values()]

    def require_unbroken(self) -> None:
        """Check the run's identity and the checksums of its files.

        Checkpoints, predictions, vocabulary and history are left out: tables do not read them.

        Raises:
            PhmrunError: (exit 3) A checksum or the identity differs, or a file is missing; names the file.
        """
        if self.broken is not None:
            raise self.broken
        self.run.manifest.check_all(without=("checkpoints", "predictions", "vocabulary", HISTORY))

    @property
    def state(self) -> str:
        """Name of the state, or ``damaged`` if status or scores cannot be read."""
        return self.status.state.value if self.status and not self.damage else DAMAGED

    def about(self, key: str) -> Any:
        """Return a fact of the status, such as task, data or seed.

        The result is ``None`` if it is missing.
        """
        return self.status.about.get(key) if self.status else None

    @property
    def network(self) -> str | None:
        """Parts of the network that are not dense: ``phm n=8, output circulant``.

        ``dense`` for a dense network; ``None`` if unknown.
        """
        network = self.about("network") or self.about("layer")
        return str(network) if network else None

    def entry(self, name: str) -> Any:
        """Return the stored entry of a score, or of a time ("time/…").

        A score's name may end with "-first-500": its mean over the first 500 items, stored as its extra ``first_500``,
        or its value if there are no more items. The result is ``None`` if it is missing, or if the status is damaged.
        """
        if not self.status:
            return None
        if name.endswith(FIRST):
            return _first_items(self.entry(name.removesuffix(FIRST)))
        return (self.times if name.startswith(PREFIX) else self.metrics).get(name)

    def score(self, name: str) -> float | None:
        """Return the value of a score or a time.

        The result is ``None`` if it is missing or not a number.
        """
        return score_value(self.entry(name))

    @property
    def main_score(self) -> str | None:
        """Name of the first score of the test set.

        If there is none, it is the first score of any other split. Order is that of the file. Scores of training,
        validation and other files do not count; ``None`` if there is no score.
        """
        scored = (name for name in self.metrics if self.score(name) is not None)
        names = [name for name in scored if not name.startswith(("train/", "validation/", OTHER_FILE))]
        return next((name for name in names if name.startswith("test/")), names[0] if names else None)

    def to_json(self) -> dict[str, Any]:
        """Return the run as one flat JSON object.

        It has ``run_id``, ``run_dir``, the facts of ``about`` and the other fields of the status (neither if it cannot
        be read), ``state``, ``damage`` and ``metrics``.
        """
        status = self.status.to_json() if self.status else {}
        place, content = (
            {"run_id": self.id, "run_dir": str(self.path)},
            {"damage": self.damage, "metrics": self.metrics},
        )
        return {**place, **status.pop("about", {}), **status, "state": self.state, **content}


def score_value(score: Any) -> float | None:
    """Return the number of a score.

    The result is ``None`` if it has none, or an integer too large for a float. NaN is returned. A score is a number, or
    an object with ``value`` and ``signature``. Booleans are no numbers.
    """
    value = score.get("value") if isinstance(score, dict) else score
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _storable(run: Run) -> dict[str, Any]:
    """Return the scores of a run.

    Raises:
        PhmrunError: (exit 3) A score is too large for a float, its text is not valid Unicode, or the file is damaged.
    """
    scores = run.metrics()
    if not _can_be_stored(scores):
        odd = next(name for name, score in scores.items() if not _can_be_stored({name: score}))
        raise PhmrunError(f"{odd[:80]!a} is not a score", where=str(run.metrics_path), code=ExitCode.DATA)
    return scores


def _can_be_stored(scores: Mapping[str, Any]) -> bool:
    """True if scores can be stored as JSON.

    Their values, if integers, fit a float, and all texts are valid Unicode.
    """
    values = (score.get("value") if isinstance(score, dict) else score for score in scores.values())
    try:
        json.dumps(scores, ensure_ascii=False).encode("utf-8")
        return all(math.isfinite(float(value)) for value in values if isinstance(value, int))
    except (OverflowError, UnicodeEncodeError, ValueError):
        return False


def _entries(path: Path) -> Iterator[RunFile]:
    """Yield the entries of a run directory, as in :attr:`RecordedRun.entries`."""
    places = {name: place for place, name in enumerate(_CONTENTS)}
    children = [child for child in path.iterdir() if not child.name.startswith(".")]
    for child in sorted(children, key=lambda child: (places.get(child.name, len(places)), child.name)):
        size = 0
        for file in [child] if child.is_file() else [path for path in child.rglob("*") if not path.is_symlink()]:
            with suppress(FileNotFoundError):
                size += file.stat().st_size if file.is_file() else 0
        yield RunFile(f"{child.name}/" if child.is_dir() else child.name, size, _CONTENTS.get(child.name, ""))


def _first_items(entry: Any) -> dict[str, Any] | None:
    """Return the entry of a score's first 500 items; ``None`` if they are not on record."""
    if not isinstance(entry, Mapping):
        return None
    value = entry.get("extras", {}).get("first_500", entry.get("value") if entry.get("n", 501) <= 500 else None)
    signature = f"{entry.get('signature', '')}|first:500"
    return None if value is None else {"value": value, "signature": signature, "n": min(entry.get("n", 500), 500)}
