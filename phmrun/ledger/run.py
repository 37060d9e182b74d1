"""Run directory of an experiment: configuration, status, scores and other records."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from phmrun.documents import flat, plain
from phmrun.errors import data_error
from phmrun.files import disk_errors, json_text, read_regular, read_text, write_text
from phmrun.ledger.access import Access, Contents
from phmrun.ledger.directory import (
    BENCH,
    CONFIG,
    DATA,
    ENVIRONMENT,
    HISTORY,
    MANIFEST,
    METRICS,
    PARAMETERS,
    STATUS,
    about_config,
    config_values,
    directory_of,
    directory_of_runs,
    find,
)
from phmrun.ledger.environment import DataRecord, now
from phmrun.ledger.history import History, Row
from phmrun.ledger.lock import Lock
from phmrun.ledger.manifest import BrokenChain
from phmrun.ledger.scores import FIRST, OTHER_FILE, PREFIX, first_items, score_value
from phmrun.ledger.status import State, Status, as_found

SAMPLES = "predictions/samples.json"


class Run:
    """Run directory, for reading and, by the process that holds `lock`, for writing; creating the object reads nothing.

    Files are written atomically; ``history.jsonl`` and ``train.log`` are appended to. Reading needs no lock. An
    evaluation may add scores during training.

    Args:
        path: Run directory.
        lenient: Read each file once, and keep errors in `faults` instead of raising them, as listings need: a damaged
            status is false, and the content of another damaged file is empty. Default: ``False``.

    Raises:
        PhmrunError: (exit 3) Methods that read raise it for a damaged file, unless ``lenient``.
    """

    def __init__(self, path: Path, *, lenient: bool = False) -> None:
        self.path = path
        # a path such as "." has no name
        self.id = path.resolve().name if path.name in ("", "..") else path.name
        self.config_path = path / CONFIG
        self.status_path = path / STATUS
        self.parameters_path = path / PARAMETERS
        self.checkpoints = path / "checkpoints"
        self.vocabulary = path / "vocabulary"
        self.predictions = path / "predictions"
        self.wandb_dir = path / "wandb"
        self.contents = Contents(path, lenient=lenient)
        self.manifest = self.contents.manifest
        self.access = Access(path, self.id)
        history = path / HISTORY
        self.history = History(history, self.access.lock.require, before_reading=lambda: self.manifest.check(history))

    @classmethod
    def create(cls, runs_dir: Path, run_id: str, config_yaml: str) -> "Run":
        """Create a run, or open the existing one of that id unchanged.

        A missing config or status is written, also into an existing directory; but no status into one with a manifest,
        which has lost its own. Missing parent directories are created.

        Args:
            runs_dir: Directory of runs.
            run_id: Run id.
            config_yaml: Resolved config, written if the run has none.

        Raises:
            PhmrunError: (exit 3) The directory cannot be created, or the id is not a valid name.
        """
        run = cls(directory_of(runs_dir, run_id))
        with disk_errors():
            if not run.config_path.exists():
                write_text(run.config_path, config_yaml)
            if not run.status_path.exists() and not run.manifest.path.exists():
                status = Status(State.QUEUED, about=about_config(config_yaml)).signed()
                write_text(run.status_path, json_text(status.to_json()))
        return run

    @classmethod
    def find(cls, runs_dir: Path, reference: str, *, lenient: bool = False) -> "Run":
        """Find a run by reference; see :func:`phmrun.ledger.directory.find`.

        Raises:
            PhmrunError: (exit 2) No run matches, several do, or none has ended for "latest".
        """
        return cls(find(runs_dir, reference), lenient=lenient)

    @property
    def reference(self) -> str:
        """Argument that names the run in a command.

        It is the id in the default directory of runs (``PHMRUN_RUNS``, else ``runs``), otherwise the quoted path.
        """
        default = directory_of_runs().absolute()
        return self.id if self.path.absolute().parent == default else shlex.quote(str(self.path))

    @property
    def status(self) -> Status:
        """Effective status: a running run whose process died is interrupted.

        Raises:
            PhmrunError: (exit 3) The status is missing or damaged, or has a wrong checksum.
        """
        return self.contents.of(STATUS, lambda: as_found(self._stored_status(), self.path), Status(State.DAMAGED))

    @property
    def state(self) -> str:
        """Name of the state; ``damaged`` if a lenient run's status or scores cannot be read."""
        return State.DAMAGED.value if self.damage else self.status.state.value

    def set_state(self, state: State, reason: str | None = None, **facts: Any) -> Status:
        """Write a new state, and return the status.

        Times, host and process id are set. ``started`` is set by the first RUNNING and then kept; ``ended`` is set by
        DONE, FAILED and INTERRUPTED, and cleared by others.

        Args:
            state: New state.
            reason: Cause of the state in a phrase; None clears the previous one.
            facts: ``step`` (optimizer steps) and ``seconds`` (of training, rounded to 1 ms) replace the previous
                values; other facts are added to ``about``, and replace those of the same name.

        Raises:
            PhmrunError: (exit 2) This object's lock was lost; (exit 3) the present status cannot be read.
        """
        before = self._stored_status()
        moment = now()
        after = replace(
            before,
            state=state,
            reason=reason,
            step=int(facts.pop("step", before.step)),
            seconds=round(float(facts.pop("seconds", before.seconds)), 3),
            started=before.started or (moment if state is State.RUNNING else None),
            ended=moment if state in (State.DONE, State.FAILED, State.INTERRUPTED) else None,
            about={**before.about, **plain(facts)},
        )
        return self.access.write_status(before, after)

    def begin(self, identity: str) -> None:
        """Check the run's manifest, and write one if the run is not done.

        The checkpoints of a run that is done are not checked. The manifest of a run that is not done then has its
        config alone.

        Args:
            identity: Canonical identity of the run.

        Raises:
            PhmrunError: (exit 3) A checksum differs, or a file is missing.
        """
        done = self.status.state is State.DONE
        self.manifest.check_all(without=("checkpoints",) if done else ())
        if not done:
            with self.access.writing():
                self.access.manifest.begin(identity)

    def fix(self, prepared: Path | None) -> None:
        """Enter prepared data and files that do not change into the manifest.

        ``prepared`` is the directory of the prepared data in the cache, ``None`` if they are not cached.

        Raises:
            PhmrunError: (exit 3) The prepared data have changed since the run began.
        """
        with self.access.writing():
            self.access.manifest.fix(prepared)

    def write(self, path: Path, text: str) -> None:
        """Write a file of the run atomically, with its checksum in the manifest.

        Raises:
            PhmrunError: (exit 2) This object's lock was lost. (exit 3) A symbolic link leads out of the run.
        """
        with self.access.writing():
            self.access.replace(path, text)

    def write_config(self, config_yaml: str) -> None:
        """Write the resolved config if it differs from the stored one.

        Raises:
            OSError: The run has no config.
        """
        if read_text(self.config_path) != config_yaml:
            self.write(self.config_path, config_yaml)

    def lock(self) -> Lock:
        """Return the lock on the run, for a ``with`` block around all changes, which writes check.

        Entering the block takes over the lock of a dead process, and raises a
        `PhmrunError` (exit 2) if a living process holds it.
        """
        return self.access.lock

    def metrics(self) -> dict[str, Any]:
        """Return the scores by name; empty before they are written."""
        return self.contents.object(METRICS)

    def add_metrics(self, scores: Mapping[str, Any]) -> None:
        """Set scores by name ("test/bleu"); other processes may set others concurrently.

        It waits up to 20 s for another writer.
        """
        with self.access.writing():
            self.access.replace(self.path / METRICS, json_text(plain({**self.metrics(), **scores})))

    def parameters(self) -> dict[str, Any]:
        """Return the parameter counts; empty before they are written."""
        return self.contents.object(PARAMETERS)

    def write_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Write the parameter counts into ``parameters.json``.

        An integer ``total`` is also entered into the status, as "parameters", for listings.
        """
        self.write(self.parameters_path, json_text(plain(parameters)))
        total = parameters.get("total")
        if isinstance(total, int):
            before = self._stored_status()
            self.access.write_status(before, replace(before, about={**before.about, "parameters": total}))

    def data(self) -> DataRecord | None:
        """Return the record of the run's data; ``None`` before it is written.

        Raises:
            PhmrunError: (exit 3) The file is damaged.
        """
        content = self.contents.object(DATA)
        try:
            return DataRecord.from_json(content) if content else None
        except ValueError as error:
            raise data_error(str(error), self.path / DATA) from error

    def identity(self) -> dict[str, Any] | None:
        """Return the identity on record (:mod:`phmrun.config.identity`); ``None`` before the run has begun."""

        def read() -> dict[str, Any] | None:
            """Read the manifest."""
            record = self.manifest.read()
            return json.loads(record.identity) if record and record.identity else None

        return self.contents.of(MANIFEST, read, None)

    def fingerprints(self) -> dict[str, str]:
        """Return the checksums of data and plug-ins in the run id, by name.

        They are those of ``data.json``; empty without that file.
        """
        record = self.data()
        return dict(record.fingerprints) if record else {}

    def write_data(self, record: DataRecord) -> None:
        """Write the record of the run's data."""
        self.write(self.path / DATA, json_text(record.to_json()))

    def environment(self) -> list[dict[str, Any]]:
        """Return the entries of ``environment.json``, oldest first; empty before they are written."""

        def is_list(content: dict[str, Any]) -> bool:
            """True if the segments are a list of objects."""
            segments = content.get("segments")
            return isinstance(segments, list) and all(isinstance(entry, dict) for entry in segments)

        segments: list[dict[str, Any]] = self.contents.object(ENVIRONMENT, is_list).get("segments", [])
        return segments

    def write_environment(self, segments: Sequence[Mapping[str, Any]]) -> None:
        """Replace the entries of ``environment.json``, oldest first."""
        self.write(self.path / ENVIRONMENT, json_text(plain({"segments": list(segments)}, otherwise=str)))

    def bench(self) -> dict[str, Any]:
        """Return the latest measurements of ``phmrun bench`` by name; empty if there are none."""
        return self.contents.object(BENCH, lambda content: all(isinstance(item, dict) for item in content.values()))

    def add_bench(self, measurements: Mapping[str, Mapping[str, Any]]) -> None:
        """Add measurements by name to ``bench.json``.

        Those of the same name are replaced, others kept.
        """
        self.write(self.path / BENCH, json_text(plain({**self.bench(), **measurements})))

    def samples(self) -> dict[str, Any]:
        """Return the sample outputs as ``columns`` and ``rows``; empty before they are written."""

        def is_table(content: dict[str, Any]) -> bool:
            """True if columns and each row are lists."""
            rows = content.get("rows")
            lists = isinstance(content.get("columns"), list) and isinstance(rows, list)
            return lists and all(isinstance(row, list) for row in rows or ())

        return self.contents.object(SAMPLES, is_table)

    def write_samples(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Replace the sample inputs and outputs, a row each.

        The W&B mirror shows them.
        """
        self.write(self.path / SAMPLES, json_text(plain({"columns": list(columns), "rows": list(rows)})))

    @property
    def config_text(self) -> str:
        """Text of the config; unless lenient, one that cannot be read raises an `OSError`."""
        return self.contents.of(CONFIG, lambda: read_regular(self.config_path).decode("utf-8"), "")

    @property
    def values(self) -> dict[str, Any]:
        """Values of the config; unless lenient, one that cannot be read raises a `PhmrunError` (exit 3)."""
        return self.contents.of("values", lambda: config_values(self.config_path), {})

    @property
    def settings(self) -> dict[str, Any]:
        """Values of the config by dotted key."""
        return self.contents.of("settings", lambda: flat(self.values), {})

    def rows(self) -> list[Row]:
        """Return the rows of the history."""
        return self.contents.of(HISTORY, self.history.read, [])

    @property
    def damage(self) -> str | None:
        """Reason why a lenient run's status or scores cannot be read; ``None`` if both can.

        It begins with the file's name, except for a failed checksum or an error of the system.
        """
        _ = self.status, self.metrics()
        return self.contents.damage

    @property
    def faults(self) -> list[str]:
        """Errors of a lenient run's damaged files, one line each; checkpoints, predictions and log are not read."""
        _ = self.status, self.values
        for read in (self.metrics, self.parameters, self.bench, self.rows, self.environment, self.samples):
            read()
        return [" ".join(". ".join(str(error).splitlines()).split()) for error in self.contents.errors.values()]

    def require_intact(self) -> None:
        """Check the checksums of a lenient run's status and scores.

        Raises:
            PhmrunError: (exit 3) One differs from the manifest.
        """
        if self.damage and isinstance(error := self.contents.error, BrokenChain):
            raise error

    def require_unbroken(self) -> None:
        """Check the run's identity and the checksums of its files.

        Checkpoints, predictions, vocabulary and history are left out: tables do not read them.

        Raises:
            PhmrunError: (exit 3) A checksum or the identity differs, or a file is missing; names the file.
        """
        self.require_intact()
        self.manifest.check_all(without=("checkpoints", "predictions", "vocabulary", HISTORY))

    def about(self, key: str) -> Any:
        """Return a fact of the status, such as task, data or seed; ``None`` if it is missing."""
        return self.status.about.get(key)

    @property
    def network(self) -> str | None:
        """Parts of the network that are not dense: ``phm n=8, output circulant``.

        ``dense`` for a dense network; ``None`` if unknown.
        """
        network = self.about("network") or self.about("layer")
        return str(network) if network else None

    @property
    def times(self) -> dict[str, Any]:
        """Measured times by name ("time/…"), each an object with seconds and a signature."""
        return {name: entry for name, entry in self.bench().items() if name.startswith(PREFIX)}

    def entry(self, name: str) -> Any:
        """Return the stored entry of a score, or of a time ("time/…").

        A score's name may end with "-first-500": its mean over the first 500 items, stored as its extra ``first_500``,
        or its value if there are no more items. The result is ``None`` if it is missing, or if the status is damaged.
        """
        if not self.status:
            return None
        if name.endswith(FIRST):
            return first_items(self.entry(name.removesuffix(FIRST)))
        return (self.times if name.startswith(PREFIX) else self.metrics()).get(name)

    def scores(self) -> dict[str, float]:
        """Return the scores that are numbers, by name; empty if the status is damaged."""

        def read() -> dict[str, float]:
            """Read status and scores."""
            values = {name: score_value(entry) for name, entry in self.metrics().items()} if self.status else {}
            return {name: value for name, value in values.items() if value is not None}

        return self.contents.of("scores", read, {})

    def score(self, name: str) -> float | None:
        """Return the value of a score or a time; ``None`` if it is missing or not a number."""
        if name.startswith(PREFIX) or name.endswith(FIRST):
            return score_value(self.entry(name))
        return self.scores().get(name)

    @property
    def main_score(self) -> str | None:
        """Name of the first score of the test set.

        If there is none, it is the first score of any other split. Order is that of the file. Scores of training,
        validation and other files do not count; ``None`` if there is no score.
        """
        names = [name for name in self.scores() if not name.startswith(("train/", "validation/", OTHER_FILE))]
        return next((name for name in names if name.startswith("test/")), names[0] if names else None)

    def to_json(self) -> dict[str, Any]:
        """Return the run as one flat JSON object.

        It has ``run_id``, ``run_dir``, the facts of ``about`` and the other fields of the status (neither if it cannot
        be read), ``state``, ``damage`` and ``metrics``.
        """
        status = self.status.to_json() if self.status else {}
        place = {"run_id": self.id, "run_dir": str(self.path)}
        facts = {**status.pop("about", {}), **status, "state": self.state, "damage": self.damage}
        return {**place, **facts, "metrics": self.metrics()}

    def _stored_status(self) -> Status:
        """Return the stored status; errors are those of :meth:`Contents.status`, or that the lock was lost (exit 2)."""
        if not self.status_path.exists():
            self.access.lock.require()  # the run may have been moved
        return self.contents.status()
